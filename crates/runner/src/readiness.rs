//! Whether the things this crate leans on answer.

use std::sync::{Arc, Mutex as Cell, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox::{LaunchError, Launcher};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::runner::Runner;

/// Readiness is asked without a key, and a probe starts a sandbox: not more often than this,
/// whatever is in doubt.
const PROBE_AGAIN: Duration = Duration::from_secs(10);

/// Whoever waits for the sandbox asks so often what is known of it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long anything may take to say that it is there. Less than the patience of those who ask.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// A first sandbox is made for the answer, and on a machine under load that takes a while.
const SANDBOX_WITHIN: Duration = Duration::from_secs(20);

const DISK_LOW: &str =
    "less is free than SKILLBOX_MIN_FREE_DISK reserves: uploads, skills and runs are refused";

/// One sentence for each part that does not work; nothing internal in it.
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

/// What a sandbox that works has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    Free,
    /// What is to run waits until there is room again; there is nothing to mend here.
    Full,
}

/// What is known of the launcher, from probes and from the runs themselves, and the probe that is
/// under way.
#[derive(Default)]
pub struct Probe {
    known: Cell<Option<Known>>,
    /// A probe that hangs is waited for again and again, never joined by a second one.
    running: Mutex<Option<JoinHandle<Result<Room, String>>>>,
}

#[derive(Clone)]
struct Known {
    at: Instant,
    answer: Result<Room, String>,
    /// A launch has failed since.
    doubted: bool,
}

impl Runner {
    /// Asks everything at once; what does not answer in time does not answer.
    pub async fn ready(&self) -> Readiness {
        let store = timeout(ANSWER_WITHIN, self.store.ping());
        let blobs = timeout(ANSWER_WITHIN, self.blobs.ping());
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

    /// Notes what somebody else has found out of the sandbox just now.
    pub fn sandbox_has(&self, room: Room) {
        self.probe.note(Ok(room));
    }

    /// Waits until the sandbox works, be it full or not.
    pub(crate) async fn wait_until_sandbox_works(&self) {
        while let Some(Err(_)) = self.sandbox().await {
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn sandbox(&self) -> Option<Result<Room, String>> {
        Some(self.probe.ask(self.launcher.as_ref()?, self.config.probe_every).await)
    }
}

impl Probe {
    /// What a launch of a run showed. Each proves as much as a probe does, and costs nothing more.
    pub fn note_launch(&self, failed: Option<&LaunchError>) {
        use LaunchError::{ImageMissing, ImageNotAllowed, ImageUnfit, NoInterpreter, NoRoom};
        match failed {
            None => self.note(Ok(Room::Free)),
            Some(NoRoom(_)) => self.note(Ok(Room::Full)),
            // It is the image that does not work, or the skill's wish for it.
            Some(ImageMissing(_) | ImageNotAllowed(_) | ImageUnfit { .. } | NoInterpreter(_)) => {}
            Some(_) => {
                if let Some(known) = &mut *self.known() {
                    known.doubted = true;
                }
            }
        }
    }

    /// What is known, if it is not older than `every`; else by a probe. While that takes its time,
    /// and it waits for room longer than anybody asks here, what worked before is believed for as
    /// long again.
    async fn ask(&self, launcher: &Arc<dyn Launcher>, every: Duration) -> Result<Room, String> {
        let known = self.known().clone();
        if let Some(known) = &known
            && known.at.elapsed() < known.fresh_for(every)
        {
            return known.answer.clone();
        }
        let patience = if known.is_some() { ANSWER_WITHIN } else { SANDBOX_WITHIN };
        match (timeout(patience, self.probed(launcher)).await, known) {
            (Ok(answer), _) => answer,
            (Err(_), Some(Known { at, answer: Ok(room), .. })) if at.elapsed() < every * 2 => {
                Ok(room)
            }
            (Err(late), _) => Err(logged("sandbox", &late)),
        }
    }

    /// The answer of the probe that is under way, or of a new one.
    async fn probed(&self, launcher: &Arc<dyn Launcher>) -> Result<Room, String> {
        let mut running = self.running.lock().await;
        let probe = running.get_or_insert_with(|| {
            let launcher = Arc::clone(launcher);
            tokio::spawn(async move {
                match launcher.probe().await {
                    Ok(_) => Ok(Room::Free),
                    Err(LaunchError::NoRoom(said)) => {
                        tracing::warn!(said, "there is no room for a sandbox now");
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
        *self.known() = Some(Known { at: Instant::now(), answer, doubted: false });
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// What does not work, or may not, is looked at again soon: it is likely to pass.
    fn fresh_for(&self, every: Duration) -> Duration {
        if self.answer.is_err() || self.doubted { every.min(PROBE_AGAIN) } else { every }
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

    /// Answers each probe with `LauncherGone` or `NoRoom`, once it is let through.
    struct Played {
        probes: AtomicUsize,
        gate: Semaphore,
        full: bool,
    }

    fn played(full: bool, gate: usize) -> (Arc<Played>, Arc<dyn Launcher>) {
        let played =
            Arc::new(Played { probes: AtomicUsize::new(0), gate: Semaphore::new(gate), full });
        (played.clone(), played)
    }

    #[async_trait]
    impl Launcher for Played {
        async fn launch(&self, _: &Shape) -> Result<Guest, LaunchError> {
            unreachable!("only probes are asked for")
        }

        async fn sweep(&self, _: &Owner) -> Result<usize, LaunchError> {
            unreachable!("only probes are asked for")
        }

        async fn probe(&self) -> Result<Isolation, LaunchError> {
            self.probes.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.expect("the gate stays").forget();
            Err(if self.full {
                LaunchError::NoRoom("pods: 0".to_owned())
            } else {
                LaunchError::LauncherGone
            })
        }
    }

    impl Played {
        fn probes(&self) -> usize {
            self.probes.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_that_is_full_works() {
        let (played, launcher) = played(true, 9);
        let probe = Probe::default();
        assert_eq!(probe.ask(&launcher, EVERY).await, Ok(Room::Full));
        assert_eq!((probe.ask(&launcher, EVERY).await, played.probes()), (Ok(Room::Full), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn launches_of_runs_are_proof_enough() {
        let (played, launcher) = played(false, 9);
        let probe = Probe::default();
        for _ in 0..5 {
            probe.note_launch(None);
            tokio::time::advance(EVERY - PROBE_AGAIN).await;
            assert_eq!(probe.ask(&launcher, EVERY).await, Ok(Room::Free));
        }
        probe.note_launch(Some(&LaunchError::NoRoom("full".to_owned())));
        assert_eq!((probe.ask(&launcher, EVERY).await, played.probes()), (Ok(Room::Full), 0));
        tokio::time::advance(EVERY).await;
        assert!(
            probe.ask(&launcher, EVERY).await.is_err(),
            "nothing has run for a while, so it was looked at"
        );
        assert_eq!(played.probes(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_looked_at_again_soon_and_not_at_once() {
        let (played, launcher) = played(false, 9);
        let probe = Probe::default();
        probe.note_launch(None);
        probe.note_launch(Some(&LaunchError::LauncherGone));
        assert_eq!((probe.ask(&launcher, EVERY).await, played.probes()), (Ok(Room::Free), 0));
        tokio::time::advance(PROBE_AGAIN).await;
        assert!(
            probe.ask(&launcher, EVERY).await.is_err()
                && probe.ask(&launcher, EVERY).await.is_err()
        );
        assert_eq!(played.probes(), 1);
        tokio::time::advance(PROBE_AGAIN).await;
        assert!(probe.ask(&launcher, EVERY).await.is_err());
        assert_eq!(played.probes(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_waits_is_waited_for_behind_what_is_known_and_not_for_ever() {
        let (played, launcher) = played(true, 0);
        let probe = Probe::default();
        probe.note_launch(None);
        tokio::time::advance(EVERY).await;
        assert_eq!(probe.ask(&launcher, EVERY).await, Ok(Room::Free), "the probe waits for room");
        tokio::time::advance(EVERY).await;
        assert!(
            probe.ask(&launcher, EVERY).await.is_err(),
            "it has hung for as long as an answer is good for"
        );
        played.gate.add_permits(1);
        assert_eq!((probe.ask(&launcher, EVERY).await, played.probes()), (Ok(Room::Full), 1));
    }
}
