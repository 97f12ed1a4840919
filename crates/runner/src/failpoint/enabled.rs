//! Points on the path of an execution at which a process can be made to die or to stall, for tests
//! of crashes. Builds for users do not have them.

use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// What has just been done, or for `Remove` is about to be, when the blow falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The accepted row is stored, the caller not answered.
    Accept,
    /// A queued execution was claimed.
    Claim,
    /// A guest waits, its job not sent.
    Launch,
    /// The script has ended, nothing of it is kept.
    Run,
    /// One of its files is in blobs.
    Upload,
    /// All of it is collected, nothing recorded.
    Collect,
    /// The result is stored, nobody told.
    Record,
    /// Blobs are to be removed.
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL: the process is gone at once, and nothing of it is cleaned up.
    Abort,
    /// SIGSTOP: it stands still until somebody sends SIGCONT.
    Stop,
}

/// Where the blow falls, and the how many-th time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failpoint {
    pub point: Point,
    pub blow: Blow,
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
        let blow = match parts.next() {
            Some("abort") => Blow::Abort,
            Some("stop") => Blow::Stop,
            _ => return Err("say `<point>:abort` or `<point>:stop`".to_owned()),
        };
        let nth = parts
            .next()
            .map_or(Ok(1), str::parse)
            .map_err(|_| "the third part is a number".to_owned())?;
        Ok(Failpoint { point, blow, nth })
    }
}

static ARMED: OnceLock<Failpoint> = OnceLock::new();
static REACHED: AtomicU32 = AtomicU32::new(0);

/// One for the whole process: its blow is one too.
pub fn arm(failpoint: Option<Failpoint>) {
    if let Some(failpoint) = failpoint {
        let _ = ARMED.set(failpoint);
    }
}

pub fn reach(point: Point) {
    let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else { return };
    if REACHED.fetch_add(1, Ordering::SeqCst) + 1 != armed.nth {
        return;
    }
    let signal = match armed.blow {
        Blow::Abort => Signal::KILL,
        Blow::Stop => Signal::STOP,
    };
    if let Err(error) = kill_process(getpid(), signal) {
        tracing::error!(%error, "a failpoint did not strike");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_is_spelled_by_point_blow_and_number() {
        let third = Failpoint { point: Point::Record, blow: Blow::Stop, nth: 3 };
        assert_eq!("record:stop:3".parse(), Ok(third));
        assert_eq!("record:stop".parse(), Ok(Failpoint { nth: 1, ..third }));
        assert_eq!(
            "upload:abort".parse(),
            Ok(Failpoint { point: Point::Upload, blow: Blow::Abort, nth: 1 })
        );
        for wrong in ["", "record", "record:", "record:now", "lunch:abort", "run:abort:x"] {
            assert!(wrong.parse::<Failpoint>().is_err(), "{wrong}");
        }
    }
}
