//! Which process the kernel kills when the sandbox has used up its memory: the script, never this
//! one.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::FromRawFd;

use guest::jail::OOM_SCORE_FD;
use rustix::io::{FdFlags, fcntl_setfd};

/// The score of this process, which a child inherits. Empty where the file cannot be written; this
/// process is then still the smallest one, which makes it the last choice of the kernel.
pub struct Score(Option<(File, String)>);

/// Killed before anything else.
const FIRST: &str = "1000";

impl Score {
    /// The file that the launcher opened for this process.
    pub fn left_by_the_launcher() -> Self {
        // SAFETY: nobody else here owns this number; if nothing is open on it, the next call says
        // so.
        let file = unsafe { File::from_raw_fd(OOM_SCORE_FD) };
        match fcntl_setfd(&file, FdFlags::CLOEXEC) {
            Ok(()) => Score::read(file),
            Err(_) => {
                // There is nothing to close.
                std::mem::forget(file);
                Score(None)
            }
        }
    }

    /// To be called before this process is hidden, which gives the file to root.
    pub fn open() -> Self {
        let file = OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj");
        file.map_or(Score(None), Score::read)
    }

    fn read(mut file: File) -> Self {
        let mut own = String::new();
        let read = file.read_to_string(&mut own);
        Score(read.ok().map(|_| (file, own)))
    }

    /// Makes a child while the score to inherit is that of a script, and takes it back for this
    /// process.
    pub fn first_to_go<T>(&self, make_child: impl FnOnce() -> T) -> T {
        self.write(|_| FIRST);
        let made = make_child();
        self.write(|own| own);
        made
    }

    fn write<'a>(&'a self, value: impl FnOnce(&'a str) -> &'a str) {
        if let Score(Some((file, own))) = self {
            let mut file: &File = file;
            let _ = file.rewind().and_then(|()| file.write_all(value(own).trim_end().as_bytes()));
        }
    }
}
