//! One request of the protocol to one function; the words and shapes stand in the other files.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
};
use rmcp::service::{NotificationContext, Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::arguments::{self, ListArguments, LoadArguments, ReadArguments, RunArguments};
use crate::connection::{McpConnection, ServedSkills};
use crate::skills::{ProviderError, RunProgress, SkillProvider, SkillRunRequest};
use crate::{extension, resources, results, tools, uri};

/// More of a file is not for a model to read.
const MAX_TOOL_READ_BYTES: usize = 1 << 20;

const INSTRUCTIONS: &str = "Skills are folders of instructions and scripts. Find one with list_skills, read its \
    instructions with load_skill, its other files with read_skill_resource, and run its scripts with run_skill_script.";

/// The server side of the protocol.
#[derive(Clone)]
pub struct Handler {
    /// Where there is one caller; over HTTP every request brings its own.
    connection: Option<McpConnection>,
    /// Calls that are being answered.
    calls: TaskTracker,
}

impl Handler {
    pub fn of(connection: Option<McpConnection>, calls: TaskTracker) -> Handler {
        Handler { connection, calls }
    }

    fn connection(&self, context: &RequestContext<RoleServer>) -> Result<McpConnection, ErrorData> {
        let parts = || {
            context
                .extensions
                .get::<::http::request::Parts>()?
                .extensions
                .get::<McpConnection>()
                .cloned()
        };
        let connection = self.connection.clone().or_else(parts);
        connection
            .ok_or_else(|| ErrorData::internal_error("The request came without its caller.", None))
    }

    fn offer(&self, context: &RequestContext<RoleServer>) -> Result<ServedSkills, ErrorData> {
        self.connection(context).map(|connection| connection.offer)
    }
}

async fn call(
    connection: &McpConnection,
    params: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ProviderError> {
    let CallToolRequestParams { name, arguments, .. } = params;
    let ServedSkills { skills, skill_tools } = &connection.offer;
    match &*name {
        "list_skills" => {
            let ListArguments { cursor } = arguments::read(arguments)?;
            Ok(results::listed(&skills.list(cursor.as_deref()).await?))
        }
        "load_skill" => {
            let LoadArguments { skill } = arguments::read(arguments)?;
            Ok(results::loaded(&skills.load(&skill).await?))
        }
        "read_skill_resource" => read_file(&**skills, arguments::read(arguments)?).await,
        "run_skill_script" => {
            run(connection, arguments::read::<RunArguments>(arguments)?.into(), context).await
        }
        own if *skill_tools => match tools::run_of(&**skills, own, arguments.as_ref()).await? {
            Some(wanted) => run(connection, wanted, context).await,
            None => Err(no_tool(own)),
        },
        unknown => Err(no_tool(unknown)),
    }
}

fn no_tool(name: &str) -> ProviderError {
    ProviderError::InvalidRequest(format!("There is no tool `{name}` here."))
}

async fn read_file(
    skills: &dyn SkillProvider,
    arguments: ReadArguments,
) -> Result<CallToolResult, ProviderError> {
    let ReadArguments { skill: name, path } = arguments;
    let found = skills.read_file(&name, &path, MAX_TOOL_READ_BYTES).await?;
    let uri = uri::of_skill_file(&name, &path);
    let contents =
        resources::contents(&uri, &path, found.content_type, &found.bytes, MAX_TOOL_READ_BYTES)?;
    let block = match &contents {
        rmcp::model::ResourceContents::TextResourceContents { text, .. } => {
            ContentBlock::text(text)
        }
        _ => ContentBlock::resource(contents),
    };
    Ok(CallToolResult::success(vec![block]))
}

/// Runs, with the lines of the log as progress for whoever asked for it.
async fn run(
    connection: &McpConnection,
    run: SkillRunRequest,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ProviderError> {
    let (name, stop) = (run.skill.clone(), context.ct.child_token());
    let skills = &connection.offer.skills;
    let ended = match context.meta.get_progress_token() {
        None => {
            connection.attend(skills.run(run, RunProgress::default(), stop.clone()), &stop).await?
        }
        Some(token) => {
            let (progress, news) = RunProgress::channel();
            let running = connection.attend(skills.run(run, progress, stop.clone()), &stop);
            tokio::join!(running, pass_on(news, &context.peer, token)).0?
        }
    };
    Ok(results::ended(&name, ended))
}

/// Until the run has ended and everything is told. Nobody knows how far a script is, so progress
/// counts the news.
async fn pass_on(mut news: mpsc::Receiver<String>, peer: &Peer<RoleServer>, token: ProgressToken) {
    let mut told = 0.0;
    while let Some(text) = news.recv().await {
        told += 1.0;
        let mut progress = ProgressNotificationParam::new(token.clone(), told);
        progress.message = Some(text);
        if peer.notify_progress(progress).await.is_err() {
            return;
        }
    }
}

/// For programs, which have no model to explain themselves to.
fn protocol_error(error: ProviderError) -> ErrorData {
    let text = error.client_message();
    match error {
        ProviderError::SkillNotFound(_)
        | ProviderError::FileNotFound { .. }
        | ProviderError::ArtifactNotFound { .. } => ErrorData::resource_not_found(text, None),
        ProviderError::InvalidRequest(_) | ProviderError::TooLarge { .. } => {
            ErrorData::invalid_params(text, None)
        }
        ProviderError::Forbidden(_) => ErrorData::invalid_request(text, None),
        ProviderError::Internal(_) => ErrorData::internal_error(text, None),
    }
}

fn no_method(method: &str) -> String {
    format!("There is no method `{}` here.", method.chars().take(100).collect::<String>())
}

fn cursor(request: Option<PaginatedRequestParams>) -> Option<String> {
    request.and_then(|request| request.cursor)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let extensions = [extension::capability()].into_iter().collect();
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_extensions_with(extensions)
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("skillbox", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {}

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offer = self.offer(&context)?;
        let mut tools = tools::general();
        if offer.skill_tools {
            tools.extend(tools::of_skills(&*offer.skills).await.map_err(protocol_error)?);
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let connection = self.connection(&context)?;
        let _answering = self.calls.token();
        let result = call(&connection, request, &context).await;
        Ok(result.unwrap_or_else(|error| results::error(&error)).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let page = self
            .offer(&context)?
            .skills
            .list(cursor(request).as_deref())
            .await
            .map_err(protocol_error)?;
        Ok(resources::list(page))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = resources::read(&*self.offer(&context)?.skills, &request.uri)
            .await
            .map_err(protocol_error)?;
        let names = "Resources here are called skill://<skill>/<path> and execution://<id>/<name>.";
        let unknown = || ErrorData::resource_not_found(names, None);
        read.map(Into::into).ok_or_else(unknown)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        let skills = self.offer(&context)?.skills;
        let result = match method.as_str() {
            extension::LIST => extension::list(&*skills, params).await,
            extension::GET => extension::get(&*skills, params).await,
            // One whose parameters fit no type of the SDK comes here too.
            "tools/call" | "resources/read" => {
                return Err(ErrorData::invalid_params(
                    format!("The parameters of {method} cannot be read."),
                    None,
                ));
            }
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, no_method(&method), None)),
        };
        // The extension knows one code for whatever is wrong with a request.
        result.map(CustomResult::new).map_err(|error| match error {
            ProviderError::SkillNotFound(_) => {
                ErrorData::invalid_params(error.client_message(), None)
            }
            other => protocol_error(other),
        })
    }
}
