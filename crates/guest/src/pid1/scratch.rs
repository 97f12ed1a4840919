//! Whether the script ran into the cap of its file systems.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use guest::jail::ScratchLimits;
use guest::protocol::paths;
use rustix::fs::{Mode, OFlags, fstat, fstatfs, open};

use super::failure::Failure;

/// Sampled at most this often.
const INTERVAL: Duration = Duration::from_millis(50);

/// The file systems that a script can write to, each of them once: one for all, or one for each
/// place.
pub struct Scratch {
    file_systems: Vec<OwnedFd>,
    /// On all of them together, where there are several. The kernel caps each; this we have to see
    /// to ourselves.
    cap: Option<ScratchLimits>,
    full: bool,
    over_cap: bool,
    sampled: Instant,
}

impl Scratch {
    pub fn open(cap: Option<ScratchLimits>) -> Result<Self, Failure> {
        let mut file_systems = Vec::new();
        let mut devices = Vec::new();
        for path in [paths::SANDBOX, paths::SKILLS, paths::WORKSPACE, paths::TMP, "/dev/shm"] {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(directory) = open(path, flags, Mode::empty()) else { continue };
            let device =
                fstat(&directory).map_err(Failure::at("stat the scratch file system"))?.st_dev;
            if !devices.contains(&device) {
                devices.push(device);
                file_systems.push(directory);
            }
        }
        Ok(Scratch { file_systems, cap, full: false, over_cap: false, sampled: Instant::now() })
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

    /// Whether the last look found more in all places together than one may hold.
    pub fn is_over_its_cap(&self) -> bool {
        self.over_cap
    }

    fn look(&mut self) {
        self.sampled = Instant::now();
        let (mut bytes, mut inodes) = (0, 0);
        for now in self.file_systems.iter().filter_map(|directory| fstatfs(directory).ok()) {
            let used = |total: u64, free: u64| total.saturating_sub(free);
            // No total means no cap.
            self.full |=
                (now.f_blocks > 0 && now.f_bfree == 0) || (now.f_files > 0 && now.f_ffree == 0);
            bytes += used(now.f_blocks, now.f_bfree) * now.f_bsize.cast_unsigned();
            inodes += used(now.f_files, now.f_ffree);
        }
        // An eighth more, so that a script that fills one place gets the kernel's error there, as
        // it does anywhere.
        let more = |cap: u64| cap + cap / 8;
        self.over_cap =
            self.cap.is_some_and(|cap| bytes > more(cap.bytes) || inodes > more(cap.inodes));
        self.full |= self.over_cap;
    }
}
