//! Watching an execution until it ends; shared by `run --follow` and `exec logs -f`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use client::{Client, Execution, ExecutionEvent, LogLine, Reply};

use crate::output::note;

/// As a shell reports a program that was ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// How watching ended.
pub enum Followed {
    Ended(Box<Reply<Execution>>),
    /// The person had enough. The execution goes on.
    Interrupted,
}

/// Hands each piece of the log to `show` as it comes, and gives back the result.
pub async fn follow(
    client: &Client,
    id: &str,
    mut show: impl FnMut(&LogLine) -> Result<()>,
) -> Result<Followed> {
    let mut events = client.execution_events(id, None).await?;
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    loop {
        let event = tokio::select! {
            event = events.next() => event?,
            _ = &mut interrupt => {
                note(&format!(
                    "\nthe execution goes on; `skillbox exec logs -f {id}` shows it again, `skillbox exec cancel {id}` stops it"
                ));
                return Ok(Followed::Interrupted);
            }
        };
        match event {
            Some(ExecutionEvent::Log(line)) => show(&line)?,
            Some(ExecutionEvent::State(_)) => {}
            Some(ExecutionEvent::Result(result)) => return Ok(Followed::Ended(result)),
            None => bail!(
                "the server ended the stream without a result; `skillbox exec get {id}` shows it"
            ),
        }
    }
}

impl Followed {
    pub fn interrupted() -> ExitCode {
        ExitCode::from(INTERRUPTED)
    }
}
