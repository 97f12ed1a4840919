//! Whether the three things this crate leans on answer.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::runner::Runner;

/// Readiness is asked without a key, and a probe starts a sandbox: not more often than this.
const PROBE_AGE: Duration = Duration::from_secs(10);

/// One sentence for each part that does not work; nothing internal in it.
#[derive(Debug, Clone)]
pub struct Readiness {
    pub store: Result<(), String>,
    pub blobs: Result<(), String>,
    pub sandbox: Result<(), String>,
}

impl Readiness {
    pub fn ok(&self) -> bool {
        self.store.is_ok() && self.blobs.is_ok() && self.sandbox.is_ok()
    }
}

/// The last answer of the launcher's probe.
#[derive(Default)]
pub struct Probe {
    last: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl Runner {
    pub async fn ready(&self) -> Readiness {
        let (store, blobs, sandbox) = tokio::join!(self.store.ping(), self.blobs.ping(), self.probe());
        Readiness {
            store: store.map_err(|error| logged("store", &error)),
            blobs: blobs.map_err(|error| logged("blobs", &error)),
            sandbox,
        }
    }

    async fn probe(&self) -> Result<(), String> {
        let mut last = self.probe.last.lock().await;
        match &*last {
            Some((at, answer)) if at.elapsed() < PROBE_AGE => answer.clone(),
            _ => {
                let answer = self.launcher.probe().await;
                let answer = answer.map(drop).map_err(|error| logged("sandbox", &error));
                *last = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }
}

fn logged(part: &str, error: &(dyn std::error::Error + 'static)) -> String {
    tracing::error!(part, error, "not ready");
    format!("the {part} does not answer")
}
