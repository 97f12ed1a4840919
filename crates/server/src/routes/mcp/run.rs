//! A run that an agent started: submit it, wait for its end, and send its log as progress.

use std::pin::pin;

use admission::WithPermit;
use mcp::{ProviderError, RunProgress, RunResult, SkillRunRequest};
use runner::EventKind;
use serde_json::{Value, json};
use store::Execution;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::provider::{ApiSkillProvider, provider_error, skill_error};
use crate::error::ApiError;
use crate::routes::execution_request::ExecutionRequest;
use crate::routes::execution_view::ExecutionResult;
use crate::routes::executions;

impl ApiSkillProvider {
    pub(super) async fn run_skill(
        &self,
        run: SkillRunRequest,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<RunResult, ProviderError> {
        let skill = run.skill.clone();
        if !self.caller.may_use(&skill) {
            return Err(ProviderError::SkillNotFound(skill));
        }
        let request: ExecutionRequest =
            serde_json::from_value(request_body(run)).map_err(|error| {
                ProviderError::InvalidRequest(format!("The arguments are invalid: {error}."))
            })?;
        let request = request.into_request(true, &[]).map_err(provider_error)?;
        // Held until the run has ended: an agent takes a waiter slot as any other waiter does.
        let _waiter_slot =
            self.app.runner.waiter_slot(&self.caller.tenant).map_err(provider_error)?;
        let id = self
            .app
            .runner
            .submit(&self.caller.to_runner_caller(), request, None)
            .await
            .map_err(|error| skill_error(&skill, error.into()))?;
        let execution = self.wait_for_end(id, progress, stop).await.map_err(provider_error)?;
        let (execution, permit) = execution.into_parts();
        permit.into_iter().for_each(|permit| self.hold_until_sent(permit));
        self.run_result(execution).await.map_err(provider_error)
    }

    /// Waits for the end of an execution. Sends progress meanwhile, and cancels the execution when
    /// `stop` is cancelled.
    async fn wait_for_end(
        &self,
        id: Uuid,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<WithPermit<Execution>, ApiError> {
        let (runner, tenant) = (&self.app.runner, &self.caller.tenant);
        let mut end = pin!(runner.wait(tenant, id));
        let mut sending = pin!(self.send_progress(id, progress));
        let (mut all_sent, mut cancelled) = (false, false);
        loop {
            tokio::select! {
                end = &mut end => return Ok(end?),
                () = &mut sending, if !all_sent => all_sent = true,
                // The wait goes on after a cancellation: the run ends soon, and its result has the
                // log so far.
                () = stop.cancelled(), if !cancelled => {
                    cancelled = true;
                    runner.cancel(tenant, id).await?;
                }
            }
        }
    }

    /// Sends the log of an execution as progress. Errors only end the progress, not the run.
    async fn send_progress(&self, id: Uuid, progress: RunProgress) {
        // Following an execution makes its worker write the log down, which costs a query each
        // 200 ms, so it happens only on request.
        if !progress.is_requested() {
            return;
        }
        let Ok(Some(mut events)) = self.app.runner.events(&self.caller.tenant, id, None).await
        else {
            return;
        };
        while let Some(Ok(event)) = events.next().await {
            match event.kind {
                EventKind::Log { text, .. } => progress.report(&text),
                EventKind::State(_) | EventKind::Result(_) => {}
            }
        }
    }

    async fn run_result(&self, execution: Execution) -> Result<RunResult, ApiError> {
        let files = executions::files_of(&self.app, &execution).await?;
        let result = ExecutionResult::new(execution.into(), files, &self.links)?;
        let document = serde_json::to_value(result).map_err(ApiError::internal)?;
        serde_json::from_value(document).map_err(ApiError::internal)
    }
}

/// The same request as the body of `POST /v1/executions`.
fn request_body(run: SkillRunRequest) -> Value {
    let SkillRunRequest { skill, version, input, script, args, stdin, env, timeout } = run;
    let mut body = json!({
        "skill": skill, "version": version, "script": script, "args": args, "stdin": stdin, "env": env,
        "timeout": timeout,
    });
    // `"input": null` is a document, so the key is absent when there is none.
    if let Some(input) = input {
        body["input"] = input;
    }
    body
}
