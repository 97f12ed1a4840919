//! The number of TCP sockets in this sandbox's network. A connection that nobody has accepted yet
//! is charged to no control group, nor is what was sent on it, so a script could fill the machine's
//! memory with them.
//!
//! Every `connect` waits for this process. Only after many of them the kernel is asked for the true
//! number.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The most TCP sockets that a run may have at a time, both ends of a connection counted. With the
/// receive buffers that the launcher sets for a sandbox's network, 2,000 connections that nobody
/// accepts should be some 40 MiB.
const MOST: usize = 2048;

/// How many calls are made between two counts.
const CALLS_PER_COUNT: usize = 128;

/// For each version of IP: where the kernel tells, and the line's beginning.
const LISTS: [(&str, &str); 2] =
    [("/proc/net/sockstat", "TCP: inuse "), ("/proc/net/sockstat6", "TCP6: inuse ")];

pub struct Sockets {
    lists: Vec<(File, &'static str)>,
    calls: usize,
    too_many: bool,
}

impl Sockets {
    /// None where the network is not the sandbox's own: sockets of others would be counted.
    pub fn open() -> Option<Sockets> {
        let lists =
            LISTS.iter().filter_map(|(path, line)| Some((File::open(path).ok()?, *line))).collect();
        let sockets = Sockets { lists, calls: 0, too_many: false };
        (sockets.count() == 0).then_some(sockets)
    }

    /// To be called for each call that may make a connection, before it is let on. False when it
    /// must not be.
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

    fn count(&self) -> usize {
        let mut buffer = [0; 1024];
        let count_in = |(list, line): &(File, &str)| match list.read_at(&mut buffer, 0) {
            Ok(read) => in_use(&buffer[..read], line),
            // What cannot be counted counts as too many.
            Err(_) => usize::MAX,
        };
        self.lists.iter().map(count_in).fold(0, usize::saturating_add)
    }
}

/// The number behind the beginning of a line; 0 where the kernel has no such line.
fn in_use(list: &[u8], line: &str) -> usize {
    let list = String::from_utf8_lossy(list);
    let rest = list.lines().find_map(|found| found.strip_prefix(line));
    rest.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_of_each_version_are_found() {
        let four = b"sockets: used 24\nTCP: inuse 7 orphan 0 tw 0 alloc 25 mem 215\nUDP: inuse 1 mem 256\n";
        assert_eq!(in_use(four, "TCP: inuse "), 7);
        assert_eq!(in_use(b"TCP6: inuse 12\nUDP6: inuse 0\n", "TCP6: inuse "), 12);
        assert_eq!(in_use(b"", "TCP: inuse "), 0);
    }
}
