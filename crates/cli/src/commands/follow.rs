//! Follows an execution until it ends, for `run --follow` and `exec logs -f`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use client::{Client, Execution, ExecutionEvent, LogLine, Reply};

use crate::output::note;

/// The exit code that shells report for a program that was stopped by Ctrl-C.
pub(super) const EXIT_INTERRUPTED: u8 = 130;

/// How following ended.
pub(super) enum FollowEnd {
    Ended(Box<Reply<Execution>>),
    /// The user pressed Ctrl-C. The execution continues.
    Interrupted,
}

/// Passes each line of the log to `show` as it arrives, and returns the result.
pub(super) async fn follow(
    client: &Client,
    id: &str,
    mut show: impl FnMut(&LogLine) -> Result<()>,
) -> Result<FollowEnd> {
    let mut events = client.execution_events(id, None).await?;
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    loop {
        let event = tokio::select! {
            event = events.next() => event?,
            _ = &mut interrupt => {
                note(&format!(
                    "\nthe execution continues; `skillbox exec logs -f {id}` follows it again, `skillbox exec cancel {id}` stops it"
                ));
                return Ok(FollowEnd::Interrupted);
            }
        };
        match event {
            Some(ExecutionEvent::Log(line)) => show(&line)?,
            Some(ExecutionEvent::State(_)) => {}
            Some(ExecutionEvent::Result(result)) => return Ok(FollowEnd::Ended(result)),
            None => bail!(
                "the server ended the stream without a result; check `skillbox exec get {id}`"
            ),
        }
    }
}

impl FollowEnd {
    pub(super) fn interrupted_exit_code() -> ExitCode {
        ExitCode::from(EXIT_INTERRUPTED)
    }
}
