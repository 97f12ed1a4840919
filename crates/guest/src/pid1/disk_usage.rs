//! Detects that the script reached the limits of its file systems.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use guest::jail::ScratchLimits;
use guest::protocol::paths;
use rustix::fs::{Mode, OFlags, fstat, fstatfs, open};

use super::failure::SetupFailure;

/// The minimum time between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// The file systems that a script can write to, each listed once: one for all directories, or one
/// for each.
pub(super) struct DiskUsage {
    file_systems: Vec<OwnedFd>,
    /// The limit on their sum, where there are several: the kernel limits each of them, and the
    /// guest must enforce the sum.
    limit: Option<ScratchLimits>,
    full: bool,
    over_limit: bool,
    sampled_at: Instant,
}

impl DiskUsage {
    pub(super) fn open(limit: Option<ScratchLimits>) -> Result<Self, SetupFailure> {
        let mut file_systems = Vec::new();
        let mut devices = Vec::new();
        for path in [paths::SANDBOX, paths::SKILLS, paths::WORKSPACE, paths::TMP, "/dev/shm"] {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(directory) = open(path, flags, Mode::empty()) else { continue };
            let device =
                fstat(&directory).map_err(SetupFailure::at("stat the scratch file system"))?.st_dev;
            if !devices.contains(&device) {
                devices.push(device);
                file_systems.push(directory);
            }
        }
        Ok(DiskUsage {
            file_systems,
            limit,
            full: false,
            over_limit: false,
            sampled_at: Instant::now(),
        })
    }

    /// Measures again if the last sample is older than the interval.
    pub(super) fn sample(&mut self) {
        if self.sampled_at.elapsed() >= SAMPLE_INTERVAL {
            self.measure();
        }
    }

    /// Measures once more; whether any sample found a full file system.
    pub(super) fn was_full(&mut self) -> bool {
        self.measure();
        self.full
    }

    /// Whether the last sample found the sum over the limit.
    pub(super) fn is_over_limit(&self) -> bool {
        self.over_limit
    }

    fn measure(&mut self) {
        self.sampled_at = Instant::now();
        let (mut bytes, mut inodes) = (0, 0);
        for now in self.file_systems.iter().filter_map(|directory| fstatfs(directory).ok()) {
            let used = |total: u64, free: u64| total.saturating_sub(free);
            // A total of 0 means that there is no limit.
            self.full |=
                (now.f_blocks > 0 && now.f_bfree == 0) || (now.f_files > 0 && now.f_ffree == 0);
            bytes += used(now.f_blocks, now.f_bfree) * now.f_bsize.cast_unsigned();
            inodes += used(now.f_files, now.f_ffree);
        }
        // With a tolerance of an eighth, so that a script that fills one directory gets the
        // kernel's error there instead of being killed, as in every other sandbox.
        let with_tolerance = |limit: u64| limit + limit / 8;
        self.over_limit = self.limit.is_some_and(|limit| {
            bytes > with_tolerance(limit.bytes) || inodes > with_tolerance(limit.inodes)
        });
        self.full |= self.over_limit;
    }
}
