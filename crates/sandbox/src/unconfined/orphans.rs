//! Kills orphans: processes that left the script's process group and became our children when their
//! parent died.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

const MAX_ATTEMPTS: u32 = 100;
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Kills and reaps every child of this process, which must have none of its own. Repeated, because
/// a killed process can leave further orphans.
pub(super) async fn kill_orphans() {
    for _ in 0..MAX_ATTEMPTS {
        let orphans = children();
        if orphans.is_empty() {
            return;
        }
        for orphan in orphans {
            let _ = kill_process(orphan, Signal::KILL);
            let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    tracing::warn!("a process that the script started could not be killed");
}

fn children() -> Vec<Pid> {
    let us = getpid().as_raw_nonzero().get();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = entries.filter(|entry| parent_pid(&entry.path()) == Some(us));
    ours.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// The fourth field of `stat`. The second one, a name in parentheses, may contain any character.
fn parent_pid(process: &Path) -> Option<i32> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
