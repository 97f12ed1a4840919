//! Where schemas are compiled and documents are checked: on a few threads of their own, shared
//! fairly, with a deadline.

use std::time::Duration;

use store::TenantId;

use crate::budget::Budget;

/// How long a caller waits for a free thread.
const WAIT: Duration = Duration::from_secs(5);
/// How long a caller waits for the work itself. The limits of schemas keep it far below that.
const DEADLINE: Duration = Duration::from_secs(10);

/// No thread was free in time, or the work took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkersBusy;

#[derive(Debug)]
pub struct SchemaWorkers {
    threads: Budget,
}

impl SchemaWorkers {
    /// As many threads as there are cores; one tenant alone keeps at most half of them busy.
    pub fn new() -> SchemaWorkers {
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
        SchemaWorkers { threads: Budget::new(cores.max(2) as u64) }
    }

    pub async fn run<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkersBusy> {
        let permit = self.threads.acquire(tenant, 1, WAIT).await.map_err(|_| WorkersBusy)?;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            // Held by the thread and not by the caller, who may have gone away: the thread is busy
            // all the same.
            drop(permit);
            done
        });
        match tokio::time::timeout(DEADLINE, working).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(failed)) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(WorkersBusy),
            },
            Err(_) => Err(WorkersBusy),
        }
    }
}
