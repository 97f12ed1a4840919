//! Whether the database, the blobs, the disk and the sandbox work.

use std::sync::{Arc, Mutex as Cell, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox::{LaunchError, Launcher};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::runner::Runner;

/// The readiness endpoint needs no key, and a probe starts a sandbox: never more often than this.
const MIN_PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// How often a task that waits for the sandbox checks it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The timeout of each check. Less than the usual timeouts of load balancers.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of the first probe: it starts a sandbox, which takes longer on a machine under load.
const FIRST_PROBE_TIMEOUT: Duration = Duration::from_secs(20);

const DISK_LOW: &str =
    "less is free than SKILLBOX_MIN_FREE_DISK reserves: uploads, skills and runs are refused";

/// The state of each part; an error is one sentence without internals.
#[derive(Debug, Clone)]
pub struct Readiness {
    pub store: Result<(), String>,
    pub blobs: Result<(), String>,
    /// `None` where nothing runs: a server without a launcher needs no sandbox.
    pub sandbox: Option<Result<Room, String>>,
    /// Whether the disk has more free than the reserve.
    pub disk: Result<(), String>,
}

impl Readiness {
    pub fn ok(&self) -> bool {
        self.store.is_ok()
            && self.blobs.is_ok()
            && self.disk.is_ok()
            && self.sandbox.as_ref().is_none_or(Result::is_ok)
    }
}

/// Whether a working sandbox backend has capacity left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    Free,
    /// Runs wait until there is capacity again; this is no failure.
    Full,
}

/// The last result about the launcher, from probes and from runs, and the probe in progress.
#[derive(Default)]
pub(crate) struct Probe {
    last: Cell<Option<ProbeResult>>,
    /// A probe that hangs is waited for again; a second one is never started beside it.
    running: Mutex<Option<JoinHandle<Result<Room, String>>>>,
}

#[derive(Clone)]
struct ProbeResult {
    at: Instant,
    answer: Result<Room, String>,
    /// A launch has failed since.
    failed_since: bool,
}

impl Runner {
    /// Checks all parts at the same time; a part that does not answer in time does not work.
    pub async fn ready(&self) -> Readiness {
        let store = timeout(CHECK_TIMEOUT, self.store.ping());
        let blobs = timeout(CHECK_TIMEOUT, self.blobs.ping());
        let (store, blobs, sandbox) = tokio::join!(store, blobs, self.sandbox());
        Readiness {
            store: store
                .map_err(|late| logged("store", &late))
                .and_then(|it| it.map_err(|e| logged("store", &e))),
            blobs: blobs
                .map_err(|late| logged("blobs", &late))
                .and_then(|it| it.map_err(|e| logged("blobs", &e))),
            sandbox,
            disk: match self.disk.is_low() {
                true => Err(DISK_LOW.to_owned()),
                false => Ok(()),
            },
        }
    }

    /// Stores a result that another part of this process has just obtained.
    pub fn note_sandbox(&self, room: Room) {
        self.probe.note(Ok(room));
    }

    /// Waits until the sandbox works, with or without capacity.
    pub(crate) async fn wait_until_sandbox_works(&self) {
        while let Some(Err(_)) = self.sandbox().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn sandbox(&self) -> Option<Result<Room, String>> {
        Some(self.probe.check(self.launcher.as_ref()?, self.config.probe_every).await)
    }
}

impl Probe {
    /// Stores the result of a launch for a run. It proves as much as a probe, at no extra cost.
    pub(crate) fn note_launch(&self, failed: Option<&LaunchError>) {
        use LaunchError::{ImageMissing, ImageNotAllowed, ImageUnfit, NoInterpreter, NoRoom};
        match failed {
            None => self.note(Ok(Room::Free)),
            Some(NoRoom(_)) => self.note(Ok(Room::Full)),
            // The image does not work, or the skill may not use it: the sandbox itself is fine.
            Some(ImageMissing(_) | ImageNotAllowed(_) | ImageUnfit { .. } | NoInterpreter(_)) => {}
            Some(_) => {
                if let Some(known) = &mut *self.last() {
                    known.failed_since = true;
                }
            }
        }
    }

    /// The last result if it is not older than `every`; else that of a probe. A probe waits for
    /// capacity longer than this call may take, so until it ends an earlier success counts for the
    /// same time again.
    async fn check(&self, launcher: &Arc<dyn Launcher>, every: Duration) -> Result<Room, String> {
        let last = self.last().clone();
        if let Some(known) = &last
            && known.at.elapsed() < known.fresh_for(every)
        {
            return known.answer.clone();
        }
        let timeout_of_probe = if last.is_some() { CHECK_TIMEOUT } else { FIRST_PROBE_TIMEOUT };
        match (timeout(timeout_of_probe, self.run_probe(launcher)).await, last) {
            (Ok(answer), _) => answer,
            (Err(_), Some(ProbeResult { at, answer: Ok(room), .. }))
                if at.elapsed() < every * 2 =>
            {
                Ok(room)
            }
            (Err(late), _) => Err(logged("sandbox", &late)),
        }
    }

    /// The result of the probe in progress, or of a new one.
    async fn run_probe(&self, launcher: &Arc<dyn Launcher>) -> Result<Room, String> {
        let mut running = self.running.lock().await;
        let probe = running.get_or_insert_with(|| {
            let launcher = Arc::clone(launcher);
            tokio::spawn(async move {
                match launcher.probe().await {
                    Ok(_) => Ok(Room::Free),
                    Err(LaunchError::NoRoom(reason)) => {
                        tracing::warn!(reason, "there is no capacity for a sandbox now");
                        Ok(Room::Full)
                    }
                    Err(error) => Err(logged("sandbox", &error)),
                }
            })
        });
        let answer = probe.await.unwrap_or_else(|error| Err(logged("sandbox", &error)));
        *running = None;
        self.note(answer.clone());
        answer
    }

    fn note(&self, answer: Result<Room, String>) {
        *self.last() = Some(ProbeResult { at: Instant::now(), answer, failed_since: false });
    }

    fn last(&self) -> MutexGuard<'_, Option<ProbeResult>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProbeResult {
    /// A failure, or a doubtful success, is checked again soon: its cause is likely to be temporary.
    fn fresh_for(&self, every: Duration) -> Duration {
        if self.answer.is_err() || self.failed_since {
            every.min(MIN_PROBE_INTERVAL)
        } else {
            every
        }
    }
}

fn logged(part: &str, error: &(dyn std::error::Error + 'static)) -> String {
    tracing::error!(part, error, "not ready");
    format!("the {part} does not answer")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use sandbox::{Guest, Isolation, Owner, Shape};
    use tokio::sync::Semaphore;

    use super::*;

    const EVERY: Duration = Duration::from_secs(300);

    /// Fails each probe with `LauncherGone` or `NoRoom`, once its gate has a permit.
    struct FakeLauncher {
        probes: AtomicUsize,
        gate: Semaphore,
        full: bool,
    }

    fn fake_launcher(full: bool, gate: usize) -> (Arc<FakeLauncher>, Arc<dyn Launcher>) {
        let played = Arc::new(FakeLauncher {
            probes: AtomicUsize::new(0),
            gate: Semaphore::new(gate),
            full,
        });
        (played.clone(), played)
    }

    #[async_trait]
    impl Launcher for FakeLauncher {
        async fn launch(&self, _: &Shape) -> Result<Guest, LaunchError> {
            unreachable!("only probes are made")
        }

        async fn sweep(&self, _: &Owner) -> Result<usize, LaunchError> {
            unreachable!("only probes are made")
        }

        async fn probe(&self) -> Result<Isolation, LaunchError> {
            self.probes.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.expect("the gate is never closed").forget();
            Err(if self.full {
                LaunchError::NoRoom("pods: 0".to_owned())
            } else {
                LaunchError::LauncherGone
            })
        }
    }

    impl FakeLauncher {
        fn probes(&self) -> usize {
            self.probes.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_without_capacity_works() {
        let (fake, launcher) = fake_launcher(true, 9);
        let probe = Probe::default();
        assert_eq!(probe.check(&launcher, EVERY).await, Ok(Room::Full));
        assert_eq!((probe.check(&launcher, EVERY).await, fake.probes()), (Ok(Room::Full), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn successful_launches_replace_probes() {
        let (fake, launcher) = fake_launcher(false, 9);
        let probe = Probe::default();
        for _ in 0..5 {
            probe.note_launch(None);
            tokio::time::advance(EVERY - MIN_PROBE_INTERVAL).await;
            assert_eq!(probe.check(&launcher, EVERY).await, Ok(Room::Free));
        }
        probe.note_launch(Some(&LaunchError::NoRoom("full".to_owned())));
        assert_eq!((probe.check(&launcher, EVERY).await, fake.probes()), (Ok(Room::Full), 0));
        tokio::time::advance(EVERY).await;
        assert!(
            probe.check(&launcher, EVERY).await.is_err(),
            "no run has proved it for a while, so it was probed"
        );
        assert_eq!(fake.probes(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_probed_again_soon_but_not_at_once() {
        let (fake, launcher) = fake_launcher(false, 9);
        let probe = Probe::default();
        probe.note_launch(None);
        probe.note_launch(Some(&LaunchError::LauncherGone));
        assert_eq!((probe.check(&launcher, EVERY).await, fake.probes()), (Ok(Room::Free), 0));
        tokio::time::advance(MIN_PROBE_INTERVAL).await;
        assert!(
            probe.check(&launcher, EVERY).await.is_err()
                && probe.check(&launcher, EVERY).await.is_err()
        );
        assert_eq!(fake.probes(), 1);
        tokio::time::advance(MIN_PROBE_INTERVAL).await;
        assert!(probe.check(&launcher, EVERY).await.is_err());
        assert_eq!(fake.probes(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_probe_does_not_hide_an_earlier_success_until_that_is_too_old() {
        let (fake, launcher) = fake_launcher(true, 0);
        let probe = Probe::default();
        probe.note_launch(None);
        tokio::time::advance(EVERY).await;
        assert_eq!(
            probe.check(&launcher, EVERY).await,
            Ok(Room::Free),
            "the probe waits for capacity"
        );
        tokio::time::advance(EVERY).await;
        assert!(
            probe.check(&launcher, EVERY).await.is_err(),
            "the earlier success is too old by now"
        );
        fake.gate.add_permits(1);
        assert_eq!((probe.check(&launcher, EVERY).await, fake.probes()), (Ok(Room::Full), 1));
    }
}
