//! A control group with a memory limit, for a server that must keep to it.

use std::fs;
use std::path::{Path, PathBuf};

/// Removed when it is dropped, after everything in it has ended.
pub struct MemoryGroup {
    /// None where this user may not make one.
    directory: Option<PathBuf>,
}

impl MemoryGroup {
    pub fn new(limit_bytes: u64) -> MemoryGroup {
        let name = format!("skillbox-test-{}", uuid::Uuid::now_v7());
        let of_one = (Path::new("/sys/fs/cgroup/memory").join(&name), "memory.limit_in_bytes");
        let of_two = (Path::new("/sys/fs/cgroup").join(&name), "memory.max");
        let (directory, file) =
            if Path::new("/sys/fs/cgroup/memory").is_dir() { of_one } else { of_two };
        let made = fs::create_dir(&directory)
            .and_then(|()| fs::write(directory.join(file), limit_bytes.to_string()));
        match made {
            Ok(()) => MemoryGroup { directory: Some(directory) },
            Err(error) => {
                println!(
                    "no control group for this test ({error}); only the server's own peak is looked at"
                );
                MemoryGroup { directory: None }
            }
        }
    }

    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let Some(directory) = &self.directory else { return };
        // What the server made below goes first.
        for below in fs::read_dir(directory).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(below.path());
        }
        let _ = fs::remove_dir(directory);
    }
}
