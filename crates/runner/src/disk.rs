//! The reserve of free disk space: below it nothing new is accepted, so that what runs can still be
//! recorded.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer of the file system is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// Directories on this machine that grow with what is stored, and how many bytes must stay free in
/// each.
#[derive(Debug, Clone, Default)]
pub struct DiskReserve {
    pub directories: Vec<PathBuf>,
    pub bytes: u64,
}

/// What is known of the reserve.
#[derive(Default)]
pub struct DiskMonitor {
    reserve: DiskReserve,
    known: Mutex<Option<(Instant, bool)>>,
}

impl DiskMonitor {
    pub fn new(reserve: DiskReserve) -> DiskMonitor {
        DiskMonitor { reserve, known: Mutex::default() }
    }

    /// Whether less is free than the reserve.
    pub fn is_low(&self) -> bool {
        if self.reserve.bytes == 0 || self.reserve.directories.is_empty() {
            return false;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, low)) = *known
            && at.elapsed() < BELIEVED
        {
            return low;
        }
        let low = self.measure();
        *known = Some((Instant::now(), low));
        low
    }

    fn measure(&self) -> bool {
        self.reserve.directories.iter().any(|directory| match rustix::fs::statvfs(directory) {
            Ok(disk) => {
                let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
                let low = free_bytes < self.reserve.bytes;
                if low {
                    let reserve_bytes = self.reserve.bytes;
                    tracing::warn!(directory = %directory.display(), free_bytes, reserve_bytes, "the disk is almost full");
                }
                low
            }
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "the free space of a disk is not known");
                false
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor(directory: PathBuf, bytes: u64) -> DiskMonitor {
        DiskMonitor::new(DiskReserve { directories: vec![directory], bytes })
    }

    #[test]
    fn the_reserve_is_compared_with_what_is_free() {
        let home = std::env::temp_dir();
        assert!(monitor(home.clone(), u64::MAX).is_low(), "no disk has so much free");
        assert!(!monitor(home.clone(), 1).is_low());
        assert!(!monitor(home, 0).is_low(), "no reserve, no question");
        assert!(!monitor("/nowhere".into(), u64::MAX).is_low(), "what is not known refuses nobody");
        assert!(!DiskMonitor::new(DiskReserve { directories: vec![], bytes: u64::MAX }).is_low());
    }
}
