//! Whether the things this crate leans on answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::runner::Runner;

/// Readiness is asked without a key, and a probe starts a sandbox: not more often than this.
const PROBE_AGE: Duration = Duration::from_secs(10);

/// How long a database or an object store may take to say that it is there.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// A sandbox is made for the answer, and on a machine under load that takes a while.
const SANDBOX_WITHIN: Duration = Duration::from_secs(20);

/// One sentence for each part that does not work; nothing internal in it.
#[derive(Debug, Clone)]
pub struct Readiness {
    pub store: Result<(), String>,
    pub blobs: Result<(), String>,
    /// `None` where nothing runs: a server without a launcher needs no sandbox.
    pub sandbox: Option<Result<(), String>>,
}

impl Readiness {
    pub fn ok(&self) -> bool {
        self.store.is_ok() && self.blobs.is_ok() && self.sandbox.as_ref().is_none_or(Result::is_ok)
    }
}

/// The last answer of the launcher's probe, and the probe that is under way.
#[derive(Default)]
pub struct Probe {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<(Instant, Result<(), String>)>,
    /// A probe that hangs is waited for again and again, never joined by a second one.
    running: Option<JoinHandle<Result<(), String>>>,
}

impl Runner {
    /// Asks everything at once; what does not answer in time does not answer.
    pub async fn ready(&self) -> Readiness {
        let store = timeout(ANSWER_WITHIN, self.store.ping());
        let blobs = timeout(ANSWER_WITHIN, self.blobs.ping());
        let sandbox = timeout(SANDBOX_WITHIN, self.probe());
        let (store, blobs, sandbox) = tokio::join!(store, blobs, sandbox);
        Readiness {
            store: store.map_err(|late| logged("store", &late)).and_then(|it| it.map_err(|e| logged("store", &e))),
            blobs: blobs.map_err(|late| logged("blobs", &late)).and_then(|it| it.map_err(|e| logged("blobs", &e))),
            sandbox: sandbox.unwrap_or_else(|late| Some(Err(logged("sandbox", &late)))),
        }
    }

    async fn probe(&self) -> Option<Result<(), String>> {
        let launcher = self.launcher.as_ref()?;
        let mut state = self.probe.state.lock().await;
        if let Some((at, answer)) = &state.last
            && at.elapsed() < PROBE_AGE
        {
            return Some(answer.clone());
        }
        let running = state.running.get_or_insert_with(|| {
            let launcher = Arc::clone(launcher);
            tokio::spawn(async move {
                let answer = launcher.probe().await;
                answer.map(drop).map_err(|error| logged("sandbox", &error))
            })
        });
        let answer = running.await.unwrap_or_else(|error| Err(logged("sandbox", &error)));
        state.running = None;
        state.last = Some((Instant::now(), answer.clone()));
        Some(answer)
    }
}

fn logged(part: &str, error: &(dyn std::error::Error + 'static)) -> String {
    tracing::error!(part, error, "not ready");
    format!("the {part} does not answer")
}
