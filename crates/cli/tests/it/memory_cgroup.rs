//! A control group with a memory limit for a server.

use std::fs;
use std::path::{Path, PathBuf};

/// Dropping it removes the group. All of its processes must have ended.
pub(crate) struct MemoryCgroup {
    /// `None` if this user cannot create control groups.
    directory: Option<PathBuf>,
}

impl MemoryCgroup {
    pub(crate) fn new(limit_bytes: u64) -> MemoryCgroup {
        let name = format!("skillbox-test-{}", uuid::Uuid::now_v7());
        let v1 = (Path::new("/sys/fs/cgroup/memory").join(&name), "memory.limit_in_bytes");
        let v2 = (Path::new("/sys/fs/cgroup").join(&name), "memory.max");
        let (directory, file) = if Path::new("/sys/fs/cgroup/memory").is_dir() { v1 } else { v2 };
        let created = fs::create_dir(&directory)
            .and_then(|()| fs::write(directory.join(file), limit_bytes.to_string()));
        match created {
            Ok(()) => MemoryCgroup { directory: Some(directory) },
            Err(error) => {
                println!(
                    "no control group for this test ({error}); only the server's own peak is checked"
                );
                MemoryCgroup { directory: None }
            }
        }
    }

    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let Some(directory) = &self.directory else { return };
        // Groups that the server created below must be removed first.
        for below in fs::read_dir(directory).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(below.path());
        }
        let _ = fs::remove_dir(directory);
    }
}
