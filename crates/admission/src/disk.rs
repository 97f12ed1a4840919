//! The reserve of free disk space: below it new work is refused, so that running executions can
//! still be recorded.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a measurement of the file system is reused.
const MEASUREMENT_TTL: Duration = Duration::from_secs(1);

/// Directories on this machine that grow with what is stored, and how many bytes must stay free in
/// each.
#[derive(Debug, Clone, Default)]
pub struct DiskReserve {
    pub directories: Vec<PathBuf>,
    pub bytes: u64,
}

/// Less disk space is free than the reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the disk is almost full, so new work is refused")]
pub struct DiskLow;

/// Measures the free space against the reserve. Clones share the last measurement.
#[derive(Debug, Clone, Default)]
pub struct DiskMonitor {
    reserve: DiskReserve,
    last: Arc<Mutex<Option<(Instant, bool)>>>,
}

impl DiskMonitor {
    pub fn new(reserve: DiskReserve) -> DiskMonitor {
        DiskMonitor { reserve, last: Arc::default() }
    }

    /// Refuses new work while the disk is almost full.
    pub fn check(&self) -> Result<(), DiskLow> {
        if self.is_low() { Err(DiskLow) } else { Ok(()) }
    }

    /// Whether less is free than the reserve.
    pub fn is_low(&self) -> bool {
        if self.reserve.bytes == 0 || self.reserve.directories.is_empty() {
            return false;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, low)) = *last
            && at.elapsed() < MEASUREMENT_TTL
        {
            return low;
        }
        let low = self.measure();
        *last = Some((Instant::now(), low));
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
            // An unknown amount refuses nothing: a file system that cannot be measured is no reason
            // to stop a server that can still write to it.
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "the free space of a disk could not be read");
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
    fn the_reserve_is_compared_with_the_free_space() {
        let home = std::env::temp_dir();
        assert!(monitor(home.clone(), u64::MAX).is_low(), "no disk has so much free");
        assert!(!monitor(home.clone(), 1).is_low());
        assert!(!monitor(home, 0).is_low(), "without a reserve nothing is measured");
        assert!(!monitor("/nowhere".into(), u64::MAX).is_low(), "an unreadable disk is not low");
        assert!(!DiskMonitor::new(DiskReserve { directories: vec![], bytes: u64::MAX }).is_low());
    }
}
