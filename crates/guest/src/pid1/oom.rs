//! The OOM score: when the sandbox has used up its memory, the kernel must kill the script and not
//! this process.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::FromRawFd;

use guest::jail::OOM_SCORE_FD;
use rustix::io::{FdFlags, fcntl_setfd};

/// The score file of this process and its own score. A child inherits the score. `None` where the
/// file cannot be written; this process is then still the smallest one, which makes it the kernel's
/// last choice.
pub(super) struct OomScore(Option<(File, String)>);

/// The maximum score: killed before any other process.
const SCRIPT_SCORE: &str = "1000";

impl OomScore {
    /// Takes over the file that the launcher opened for this process.
    pub(super) fn inherited() -> Self {
        // SAFETY: no other value owns this descriptor; if it is not open, the next call fails.
        let file = unsafe { File::from_raw_fd(OOM_SCORE_FD) };
        match fcntl_setfd(&file, FdFlags::CLOEXEC) {
            Ok(()) => OomScore::read(file),
            Err(_) => {
                // The descriptor is not open, so it must not be closed.
                std::mem::forget(file);
                OomScore(None)
            }
        }
    }

    /// Must be called before this process is hidden, which makes the file root's.
    pub(super) fn open() -> Self {
        let file = OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj");
        file.map_or(OomScore(None), OomScore::read)
    }

    fn read(mut file: File) -> Self {
        let mut own = String::new();
        let read = file.read_to_string(&mut own);
        OomScore(read.ok().map(|_| (file, own)))
    }

    /// Forks while this process has the score of a script, and then restores its own score. The
    /// child cannot set the score itself, because it cannot open the file.
    pub(super) fn fork_with_script_score<T>(&self, make_child: impl FnOnce() -> T) -> T {
        self.write(|_| SCRIPT_SCORE);
        let made = make_child();
        self.write(|own| own);
        made
    }

    fn write<'a>(&'a self, value: impl FnOnce(&'a str) -> &'a str) {
        if let OomScore(Some((file, own))) = self {
            let mut file: &File = file;
            let _ = file.rewind().and_then(|()| file.write_all(value(own).trim_end().as_bytes()));
        }
    }
}
