//! The SDK's handler trait: one method for each request of the protocol. Results, schemas and
//! errors are built in the other files.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode,
    Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::task::TaskTracker;

use crate::connection::{McpConnection, ServedSkills};
use crate::provider_error::ProviderError;
use crate::tool_calls::call_tool;
use crate::{extension, resources, results, skill_tools, tools};

const INSTRUCTIONS: &str = "Skills are folders of instructions and scripts. Find one with list_skills, read its \
    instructions with load_skill, its other files with read_skill_resource, and run its scripts with run_skill_script.";

/// The server side of the protocol.
#[derive(Clone)]
pub(crate) struct McpHandler {
    /// The only caller, over standard streams. Over HTTP each request has its own in its
    /// extensions.
    connection: Option<McpConnection>,
    /// Tool calls in progress.
    calls: TaskTracker,
}

impl McpHandler {
    pub(crate) fn new(connection: Option<McpConnection>, calls: TaskTracker) -> McpHandler {
        McpHandler { connection, calls }
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
        connection.ok_or_else(|| ErrorData::internal_error("The request has no caller.", None))
    }

    fn served_skills(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<ServedSkills, ErrorData> {
        self.connection(context).map(|connection| connection.served)
    }
}

/// The error as a protocol error, for requests that no model sees.
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

fn unknown_method(method: &str) -> String {
    format!("There is no method `{}`.", method.chars().take(100).collect::<String>())
}

fn cursor(request: Option<PaginatedRequestParams>) -> Option<String> {
    request.and_then(|request| request.cursor)
}

impl ServerHandler for McpHandler {
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
        let served = self.served_skills(&context)?;
        let mut tools = tools::general_tools();
        if served.skill_tools {
            tools.extend(
                skill_tools::list_skill_tools(&*served.skills).await.map_err(protocol_error)?,
            );
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let connection = self.connection(&context)?;
        let _in_progress = self.calls.token();
        let result = call_tool(&connection, request, &context).await;
        // A model can read the text of a failed tool call and correct itself; a protocol error goes
        // to its program only.

        Ok(result.unwrap_or_else(|error| results::tool_error(&error)).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let page = self
            .served_skills(&context)?
            .skills
            .list(cursor(request).as_deref())
            .await
            .map_err(protocol_error)?;
        Ok(resources::resource_list(page))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::resource_templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = resources::read_resource(&*self.served_skills(&context)?.skills, &request.uri)
            .await
            .map_err(protocol_error)?;
        let message =
            "Resource not found. URIs are skill://<skill>/<path> and execution://<id>/<name>.";
        let unknown = || ErrorData::resource_not_found(message, None);
        read.map(Into::into).ok_or_else(unknown)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        let skills = self.served_skills(&context)?.skills;
        let result = match method.as_str() {
            extension::LIST_METHOD => extension::list_skills(&*skills, params).await,
            extension::GET_METHOD => extension::get_skill(&*skills, params).await,
            // The SDK passes a known method here when its parameters do not deserialize.
            "tools/call" | "resources/read" => {
                return Err(ErrorData::invalid_params(
                    format!("The parameters of {method} are invalid."),
                    None,
                ));
            }
            _ => {
                return Err(ErrorData::new(
                    ErrorCode::METHOD_NOT_FOUND,
                    unknown_method(&method),
                    None,
                ));
            }
        };
        // The extension defines a single code for every invalid request.
        result.map(CustomResult::new).map_err(|error| match error {
            ProviderError::SkillNotFound(_) => {
                ErrorData::invalid_params(error.client_message(), None)
            }
            other => protocol_error(other),
        })
    }
}
