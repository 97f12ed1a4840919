//! Arms one failpoint for this process, and triggers it.

use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// The action that has just been done, or for `Remove` is about to be, when the failpoint triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The accepted row is stored, the caller has no response yet.
    Accept,
    /// A queued execution was claimed.
    Claim,
    /// A guest waits, its job is not sent yet.
    Launch,
    /// The script has ended, nothing of its result is stored.
    Run,
    /// One of the artifacts is in blobs.
    Upload,
    /// The result is collected, nothing is recorded.
    Collect,
    /// The result is recorded, no waiter is notified.
    Record,
    /// Blobs are to be removed.
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailpointAction {
    /// SIGKILL: the process ends at once, without any cleanup.
    Abort,
    /// SIGSTOP: the process does not run until it receives SIGCONT.
    Stop,
}

/// A point, what happens there, and how many times the point must be reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failpoint {
    pub point: Point,
    pub action: FailpointAction,
    pub nth: u32,
}

impl FromStr for Failpoint {
    type Err = String;

    /// `record:abort`, or `record:stop:3` for the third time.
    fn from_str(text: &str) -> Result<Failpoint, String> {
        let mut parts = text.split(':');
        let point = match parts.next() {
            Some("accept") => Point::Accept,
            Some("claim") => Point::Claim,
            Some("launch") => Point::Launch,
            Some("run") => Point::Run,
            Some("upload") => Point::Upload,
            Some("collect") => Point::Collect,
            Some("record") => Point::Record,
            Some("remove") => Point::Remove,
            _ => {
                return Err(
                    "name one of accept, claim, launch, run, upload, collect, record, remove"
                        .to_owned(),
                );
            }
        };
        let action = match parts.next() {
            Some("abort") => FailpointAction::Abort,
            Some("stop") => FailpointAction::Stop,
            _ => return Err("write `<point>:abort` or `<point>:stop`".to_owned()),
        };
        let nth = parts
            .next()
            .map_or(Ok(1), str::parse)
            .map_err(|_| "the third part is a number".to_owned())?;
        Ok(Failpoint { point, action, nth })
    }
}

static ARMED: OnceLock<Failpoint> = OnceLock::new();
static REACHED: AtomicU32 = AtomicU32::new(0);

/// There is one failpoint per process, because both actions affect the whole process.
pub(crate) fn arm(failpoint: Option<Failpoint>) {
    if let Some(failpoint) = failpoint {
        let _ = ARMED.set(failpoint);
    }
}

pub(crate) fn reach(point: Point) {
    let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else { return };
    if REACHED.fetch_add(1, Ordering::SeqCst) + 1 != armed.nth {
        return;
    }
    let signal = match armed.action {
        FailpointAction::Abort => Signal::KILL,
        FailpointAction::Stop => Signal::STOP,
    };
    if let Err(error) = kill_process(getpid(), signal) {
        tracing::error!(%error, "a failpoint could not send its signal");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_is_parsed_from_point_action_and_number() {
        let third = Failpoint { point: Point::Record, action: FailpointAction::Stop, nth: 3 };
        assert_eq!("record:stop:3".parse(), Ok(third));
        assert_eq!("record:stop".parse(), Ok(Failpoint { nth: 1, ..third }));
        assert_eq!(
            "upload:abort".parse(),
            Ok(Failpoint { point: Point::Upload, action: FailpointAction::Abort, nth: 1 })
        );
        for wrong in ["", "record", "record:", "record:now", "lunch:abort", "run:abort:x"] {
            assert!(wrong.parse::<Failpoint>().is_err(), "{wrong}");
        }
    }
}
