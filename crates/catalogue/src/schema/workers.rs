//! A few threads on which schemas are compiled and documents are checked, shared fairly between
//! tenants, with a timeout.

use std::time::Duration;

use admission::Budget;
use store::TenantId;

/// How long a caller waits for a free thread.
const THREAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a caller waits for the work itself. The limits of schemas keep it far below that.
const WORK_TIMEOUT: Duration = Duration::from_secs(10);

/// No thread was free in time, or the work took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkersBusy;

#[derive(Debug)]
pub struct SchemaWorkers {
    threads: Budget,
}

impl SchemaWorkers {
    /// As many threads as there are cores; one tenant alone keeps at most half of them busy.
    pub(crate) fn new() -> SchemaWorkers {
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
        SchemaWorkers { threads: Budget::new(cores.max(2) as u64) }
    }

    pub async fn run<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkersBusy> {
        let permit =
            self.threads.acquire(tenant, 1, THREAD_TIMEOUT).await.map_err(|_| WorkersBusy)?;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            // The thread owns the permit and not the caller: a caller that disconnects drops its
            // future while the thread is still busy.
            drop(permit);
            done
        });
        match tokio::time::timeout(WORK_TIMEOUT, working).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(failed)) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(WorkersBusy),
            },
            Err(_) => Err(WorkersBusy),
        }
    }
}
