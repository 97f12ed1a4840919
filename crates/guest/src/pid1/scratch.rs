//! Whether the script ran into the cap of its file systems.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use guest::protocol::paths;
use rustix::fs::{Mode, OFlags, fstat, fstatfs, open};

use super::failure::Failure;

/// Sampled at most this often.
const INTERVAL: Duration = Duration::from_millis(50);

/// The file systems that a script can write to, each of them once: one for all, or one for each place.
pub struct Scratch {
    file_systems: Vec<OwnedFd>,
    full: bool,
    sampled: Instant,
}

impl Scratch {
    pub fn open() -> Result<Self, Failure> {
        let mut file_systems = Vec::new();
        let mut devices = Vec::new();
        for path in [paths::SANDBOX, paths::WORKSPACE, paths::TMP, "/dev/shm"] {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(directory) = open(path, flags, Mode::empty()) else { continue };
            let device = fstat(&directory).map_err(Failure::at("stat the scratch file system"))?.st_dev;
            if !devices.contains(&device) {
                devices.push(device);
                file_systems.push(directory);
            }
        }
        Ok(Scratch { file_systems, full: false, sampled: Instant::now() })
    }

    /// Looks again if the last look was some time ago.
    pub fn sample(&mut self) {
        if self.sampled.elapsed() >= INTERVAL {
            self.look();
        }
    }

    /// Looks a last time and tells whether any look found no room.
    pub fn was_full(&mut self) -> bool {
        self.look();
        self.full
    }

    fn look(&mut self) {
        self.sampled = Instant::now();
        self.full = self.full
            || self.file_systems.iter().filter_map(|directory| fstatfs(directory).ok()).any(|now| {
                // No total means no cap.
                (now.f_blocks > 0 && now.f_bfree == 0) || (now.f_files > 0 && now.f_ffree == 0)
            });
    }
}
