//! The number of record locks in this sandbox. The kernel charges their memory to no control group,
//! so a script could fill the machine's with them.
//!
//! Every call that creates one waits for this process, so what may exist is known without looking:
//! a call adds two locks at most, by splitting one in three. Only after many calls the kernel's
//! list is read for the true number.

use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;

use guest::jail::LOCKS_FD;
use rustix::io::{FdFlags, fcntl_setfd};

/// The most locks that a run may hold: 3 MiB of the kernel's memory. Databases hold a handful.
const MOST: usize = 16 * 1024;

/// How many calls are made between two counts. Reading the list makes every lock on the machine
/// wait, so it is done seldom.
const CALLS_PER_COUNT: usize = 4096;

/// The kernel fills no more than a page at once.
const PAGE: usize = 4096;

pub struct Locks {
    list: File,
    calls: usize,
    too_many: bool,
    buffer: Vec<u8>,
}

impl Locks {
    /// The list that the launcher opened before it was hidden from scripts.
    pub fn left_by_the_launcher() -> Option<Locks> {
        // SAFETY: nobody else here owns this number; if nothing is open on it, the next call says
        // so.
        let list = unsafe { File::from_raw_fd(LOCKS_FD) };
        match fcntl_setfd(&list, FdFlags::CLOEXEC) {
            Ok(()) => Some(Locks::new(list)),
            Err(_) => {
                // There is nothing to close.
                std::mem::forget(list);
                None
            }
        }
    }

    /// The list of a container, where it is not hidden.
    pub fn open() -> Option<Locks> {
        File::open("/proc/locks").ok().map(Locks::new)
    }

    fn new(list: File) -> Locks {
        // Not zero, so that the pages are there before the script takes all memory.
        Locks { list, calls: 0, too_many: false, buffer: vec![1; PAGE] }
    }

    /// To be called for each call that may create a lock, before it is let on. False when it must
    /// not be.
    pub fn admit(&mut self) -> bool {
        self.calls += 1;
        if self.calls >= CALLS_PER_COUNT {
            self.calls = 0;
            self.too_many |= self.count() > MOST;
        }
        !self.too_many
    }

    pub fn are_too_many(&self) -> bool {
        self.too_many
    }

    /// The record locks of this sandbox's processes, or a number above `MOST` as soon as there are
    /// more. Locks of other kinds are as many as open files at most, and the list has those of the
    /// whole machine.
    fn count(&mut self) -> usize {
        let (mut offset, mut count) = (0, 0);
        while count <= MOST {
            match self.list.read_at(&mut self.buffer, offset) {
                Ok(0) => break,
                Ok(read) => {
                    offset += read as u64;
                    count += record_locks(&self.buffer[..read]);
                }
                // What cannot be counted counts as too many.
                Err(_) => return usize::MAX,
            }
        }
        count
    }
}

/// The lines of record locks, held or waited for; a read never ends within a line.
fn record_locks(list: &[u8]) -> usize {
    const KIND: &[u8] = b" POSIX ";
    list.split(|byte| *byte == b'\n')
        .filter(|line| line.windows(KIND.len()).any(|word| word == KIND))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_record_locks_are_counted() {
        let list = b"1: POSIX  ADVISORY  WRITE 7 00:2b:12 0 EOF\n1: -> POSIX  ADVISORY  READ  8 00:2b:12 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 7 00:2b:13 0 EOF\n3: OFDLCK ADVISORY  READ  -1 fe:00:9 0 EOF\n";
        assert_eq!(record_locks(list), 2);
        assert_eq!(record_locks(b""), 0);
    }
}
