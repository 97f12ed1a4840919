//! Calls of tools: dispatch by name, and the runs that they start.

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ProgressNotificationParam, ProgressToken,
    ResourceContents,
};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::mpsc;

use crate::arguments::{
    ListArguments, LoadArguments, ReadArguments, RunArguments, parse_arguments,
};
use crate::connection::{McpConnection, ServedSkills};
use crate::progress::RunProgress;
use crate::provider::{SkillProvider, SkillRunRequest};
use crate::provider_error::ProviderError;
use crate::{resources, results, skill_tools, uri};

/// The longest file that fits into a model's context; longer ones are read as resources.
const MAX_TOOL_READ_BYTES: usize = 1 << 20;

pub(crate) async fn call_tool(
    connection: &McpConnection,
    params: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ProviderError> {
    let CallToolRequestParams { name, arguments, .. } = params;
    let ServedSkills { skills, skill_tools } = &connection.served;
    match &*name {
        "list_skills" => {
            let ListArguments { cursor } = parse_arguments(arguments)?;
            Ok(results::skill_list(&skills.list(cursor.as_deref()).await?))
        }
        "load_skill" => {
            let LoadArguments { skill } = parse_arguments(arguments)?;
            Ok(results::loaded_skill(&skills.load(&skill).await?))
        }
        "read_skill_resource" => read_file(&**skills, parse_arguments(arguments)?).await,
        "run_skill_script" => {
            let run: RunArguments = parse_arguments(arguments)?;
            run_skill(connection, run.into(), context).await
        }
        own if *skill_tools => {
            match skill_tools::run_request_for(&**skills, own, arguments.as_ref()).await? {
                Some(run) => run_skill(connection, run, context).await,
                None => Err(tool_not_found(own)),
            }
        }
        unknown => Err(tool_not_found(unknown)),
    }
}

fn tool_not_found(name: &str) -> ProviderError {
    ProviderError::InvalidRequest(format!("There is no tool `{name}`."))
}

async fn read_file(
    skills: &dyn SkillProvider,
    arguments: ReadArguments,
) -> Result<CallToolResult, ProviderError> {
    let ReadArguments { skill, path } = arguments;
    let file = skills.read_file(&skill, &path, MAX_TOOL_READ_BYTES).await?;
    let uri = uri::skill_file_uri(&skill, &path);
    let contents = resources::resource_contents(&uri, &path, file, MAX_TOOL_READ_BYTES)?;
    let block = match &contents {
        ResourceContents::TextResourceContents { text, .. } => ContentBlock::text(text),
        // The SDK's enum may grow; everything but text is embedded as it is.
        _ => ContentBlock::resource(contents),
    };
    Ok(CallToolResult::success(vec![block]))
}

/// Runs a skill, and sends the lines of its log as progress when the client requested progress.
async fn run_skill(
    connection: &McpConnection,
    run: SkillRunRequest,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ProviderError> {
    // `stop` is cancelled by the client's cancel notification (through the parent token) and when
    // the client disconnects.
    let (skill, stop) = (run.skill.clone(), context.ct.child_token());
    let skills = &connection.served.skills;
    let result = match context.meta.get_progress_token() {
        None => {
            let run = skills.run(run, RunProgress::default(), stop.clone());
            connection.cancel_on_disconnect(run, &stop).await?
        }
        Some(token) => {
            let (progress, lines) = RunProgress::channel();
            let run = skills.run(run, progress, stop.clone());
            let run = connection.cancel_on_disconnect(run, &stop);
            tokio::join!(run, send_progress(lines, &context.peer, token)).0?
        }
    };
    Ok(results::run_result(&skill, result))
}

/// Sends each line as a notification until the run has ended. The share of work done is unknown, so
/// `progress` counts the notifications, as the protocol requires it to grow.
async fn send_progress(
    mut lines: mpsc::Receiver<String>,
    peer: &Peer<RoleServer>,
    token: ProgressToken,
) {
    let mut sent = 0.0;
    while let Some(text) = lines.recv().await {
        sent += 1.0;
        let mut progress = ProgressNotificationParam::new(token.clone(), sent);
        progress.message = Some(text);
        // The run goes on without progress when the client does not take it.
        if peer.notify_progress(progress).await.is_err() {
            return;
        }
    }
}
