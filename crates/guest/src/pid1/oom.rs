//! Which process the kernel kills when the sandbox has used up its memory: the script, never this one.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};

/// The score of this process, which a child inherits. Empty where the file cannot be written; this process is
/// then still the smallest one, which makes it the last choice of the kernel.
pub struct Score(Option<(File, String)>);

/// Killed before anything else.
const FIRST: &str = "1000";

impl Score {
    pub fn open() -> Self {
        let open = || {
            let mut file = OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj").ok()?;
            let mut own = String::new();
            file.read_to_string(&mut own).ok()?;
            Some((file, own))
        };
        Score(open())
    }

    /// Makes a child while the score to inherit is that of a script, and takes it back for this process.
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
