//! Counts the record locks in this sandbox. The kernel charges their memory to no cgroup, so a
//! script could otherwise exhaust the host's memory with them.
//!
//! Every call that creates a lock is suspended until this process allows it, so the number of calls
//! bounds the number of locks: a call adds at most two, by splitting one lock in three. The
//! kernel's list is only read for the exact number after many calls.

use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;

use guest::jail::LOCKS_FD;
use rustix::io::{FdFlags, fcntl_setfd};

/// The maximum number of locks per run: 3 MiB of kernel memory. Databases hold a handful.
const MAX_RECORD_LOCKS: usize = 16 * 1024;

/// The number of calls between two counts. Reading the list blocks every lock operation on the
/// machine, so it is done rarely.
const CALLS_PER_COUNT: usize = 4096;

/// The kernel returns at most one page per read.
const PAGE_BYTES: usize = 4096;

pub(super) struct RecordLockCounter {
    list: File,
    calls: usize,
    too_many: bool,
    buffer: Vec<u8>,
}

impl RecordLockCounter {
    /// Takes over the list that the launcher opened before it was masked.
    pub(super) fn inherited() -> Option<RecordLockCounter> {
        // SAFETY: no other value owns this descriptor; if it is not open, the next call fails.
        let list = unsafe { File::from_raw_fd(LOCKS_FD) };
        match fcntl_setfd(&list, FdFlags::CLOEXEC) {
            Ok(()) => Some(RecordLockCounter::new(list)),
            Err(_) => {
                // The descriptor is not open, so it must not be closed.
                std::mem::forget(list);
                None
            }
        }
    }

    /// Opens the list in a container, where it is not masked.
    pub(super) fn open() -> Option<RecordLockCounter> {
        File::open("/proc/locks").ok().map(RecordLockCounter::new)
    }

    fn new(list: File) -> RecordLockCounter {
        // Non-zero, so that its pages are allocated before the script uses up all memory.
        RecordLockCounter { list, calls: 0, too_many: false, buffer: vec![1; PAGE_BYTES] }
    }

    /// Whether a suspended call that may create a lock can continue.
    pub(super) fn allow_call(&mut self) -> bool {
        self.calls += 1;
        if self.calls >= CALLS_PER_COUNT {
            self.calls = 0;
            self.too_many |= self.count_held() > MAX_RECORD_LOCKS;
        }
        !self.too_many
    }

    pub(super) fn is_over_limit(&self) -> bool {
        self.too_many
    }

    /// Counts the record locks of this sandbox's processes, stopping above `MAX_RECORD_LOCKS`.
    /// Other types of locks are excluded: they are limited by the number of open files, and the
    /// list contains those of the whole machine.
    fn count_held(&mut self) -> usize {
        let (mut offset, mut count) = (0, 0);
        while count <= MAX_RECORD_LOCKS {
            match self.list.read_at(&mut self.buffer, offset) {
                Ok(0) => break,
                Ok(read) => {
                    offset += read as u64;
                    count += count_record_locks(&self.buffer[..read]);
                }
                // Fail closed: a list that cannot be read counts as over the limit.
                Err(_) => return usize::MAX,
            }
        }
        count
    }
}

/// Counts the lines of record locks, held or waited for. A read never ends within a line.
fn count_record_locks(list: &[u8]) -> usize {
    const KIND: &[u8] = b" POSIX ";
    list.split(|byte| *byte == b'\n')
        .filter(|line| line.windows(KIND.len()).any(|word| word == KIND))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_record_locks() {
        let list = b"1: POSIX  ADVISORY  WRITE 7 00:2b:12 0 EOF\n1: -> POSIX  ADVISORY  READ  8 00:2b:12 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 7 00:2b:13 0 EOF\n3: OFDLCK ADVISORY  READ  -1 fe:00:9 0 EOF\n";
        assert_eq!(count_record_locks(list), 2);
        assert_eq!(count_record_locks(b""), 0);
    }
}
