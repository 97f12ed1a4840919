//! Counts the TCP sockets in this sandbox's network namespace. A connection that has not been
//! accepted is charged to no cgroup, nor is the data sent on it, so a script could otherwise
//! exhaust the host's memory with them.
//!
//! Every `connect` is suspended until this process allows it. The exact number is only read from
//! the kernel after many calls.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The maximum number of TCP sockets of a run, counting both ends of a connection. With the receive
/// buffers that the launcher sets for the network namespace, 2,000 unaccepted connections should be
/// some 40 MiB.
const MAX_TCP_SOCKETS: usize = 2048;

/// The number of calls between two counts.
const CALLS_PER_COUNT: usize = 128;

/// For each IP version: the kernel's statistics file and the prefix of the line with the number.
const SOCKSTAT_FILES: [(&str, &str); 2] =
    [("/proc/net/sockstat", "TCP: inuse "), ("/proc/net/sockstat6", "TCP6: inuse ")];

pub(super) struct TcpSocketCounter {
    files: Vec<(File, &'static str)>,
    calls: usize,
    too_many: bool,
}

impl TcpSocketCounter {
    /// `None` where the network namespace is shared, because sockets of others would be counted.
    pub(super) fn open() -> Option<TcpSocketCounter> {
        let files = SOCKSTAT_FILES
            .iter()
            .filter_map(|(path, line)| Some((File::open(path).ok()?, *line)))
            .collect();
        let sockets = TcpSocketCounter { files, calls: 0, too_many: false };
        (sockets.count() == 0).then_some(sockets)
    }

    /// Whether a suspended call that may open a connection can continue.
    pub(super) fn allow_call(&mut self) -> bool {
        self.calls += 1;
        if self.calls >= CALLS_PER_COUNT {
            self.calls = 0;
            self.too_many |= self.count() > MAX_TCP_SOCKETS;
        }
        !self.too_many
    }

    pub(super) fn is_over_limit(&self) -> bool {
        self.too_many
    }

    fn count(&self) -> usize {
        let mut buffer = [0; 1024];
        let count_in = |(list, line): &(File, &str)| match list.read_at(&mut buffer, 0) {
            Ok(read) => in_use(&buffer[..read], line),
            // Fail closed: a number that cannot be read counts as over the limit.
            Err(_) => usize::MAX,
        };
        self.files.iter().map(count_in).fold(0, usize::saturating_add)
    }
}

/// The number after the prefix of a line; 0 where the kernel has no such line.
fn in_use(list: &[u8], line: &str) -> usize {
    let list = String::from_utf8_lossy(list);
    let rest = list.lines().find_map(|found| found.strip_prefix(line));
    rest.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_socket_counts_of_each_ip_version() {
        let four = b"sockets: used 24\nTCP: inuse 7 orphan 0 tw 0 alloc 25 mem 215\nUDP: inuse 1 mem 256\n";
        assert_eq!(in_use(four, "TCP: inuse "), 7);
        assert_eq!(in_use(b"TCP6: inuse 12\nUDP6: inuse 0\n", "TCP6: inuse "), 12);
        assert_eq!(in_use(b"", "TCP: inuse "), 0);
    }
}
