//! Handles the system calls that the notify filter suspends (seccomp user notification): connects
//! and record locks.
//!
//! Connect attempts to other machines are reported to the host, and then continued: the network
//! namespace blocks them, not this listener. A script with two threads can change an address after
//! it was read here, so a report shows what the script presented, and is no proof of what it did.
//!
//! Record locks and connections are counted, because they use kernel memory that no cgroup charges.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use guest::jail::NOTIFY_FD;
use guest::protocol::{ConnectAttempt, ConnectCall, FromGuest, MAX_CONNECT_ATTEMPTS};
use rustix::io::{FdFlags, fcntl_setfd};

use super::channel::Channel;
use super::record_locks::RecordLockCounter;
use super::tcp_sockets::TcpSocketCounter;

/// The link target in `/proc` of a seccomp notification descriptor.
const SECCOMP_NOTIFY_LINK: &str = "anon_inode:seccomp notify";

/// The length of the longest parsed address, an IPv6 socket address.
const MAX_ADDRESS_BYTES: usize = 28;

pub(super) struct SyscallListener {
    listener: OwnedFd,
    reported: Vec<ConnectAttempt>,
    /// `None` where a filter rejects record locks instead.
    locks: Option<RecordLockCounter>,
    /// `None` where the network namespace is shared.
    sockets: Option<TcpSocketCounter>,
}

impl SyscallListener {
    pub(super) fn new(listener: OwnedFd, locks: Option<RecordLockCounter>) -> SyscallListener {
        // Everything is allocated now, because the script may use up all memory later.
        SyscallListener {
            listener,
            reported: Vec::with_capacity(MAX_CONNECT_ATTEMPTS),
            locks,
            sockets: TcpSocketCounter::open(),
        }
    }

    /// Takes over the listener that the launcher installed, if the kernel supports it.
    pub(super) fn inherited() -> Option<SyscallListener> {
        let link = std::fs::read_link(format!("/proc/self/fd/{NOTIFY_FD}")).ok()?;
        if link.as_os_str() != SECCOMP_NOTIFY_LINK {
            return None;
        }
        // SAFETY: the link shows that this is the launcher's listener, and no other value owns it.
        let listener = unsafe { OwnedFd::from_raw_fd(NOTIFY_FD) };
        fcntl_setfd(&listener, FdFlags::CLOEXEC).ok()?;
        Some(SyscallListener::new(listener, RecordLockCounter::inherited()))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Handles one suspended call. Only one per round, so that a script that makes calls in a loop
    /// does not keep the guest from forwarding logs and enforcing limits.
    pub(super) fn handle_notification(&mut self, host: &mut Channel) {
        // Fails when the suspended process was killed meanwhile.
        let Some(notification) = receive(&self.listener) else { return };
        if i64::from(notification.data.nr) == libc::SYS_fcntl {
            return self.handle_lock_call(notification.id);
        }
        // Over the limit: the call stays suspended until its process is killed.
        if !self.sockets.as_mut().is_none_or(TcpSocketCounter::allow_call) {
            return;
        }
        // The address must be read while the call is suspended.
        let attempt = parse_attempt(&notification);
        continue_call(&self.listener, notification.id);
        if let Some(attempt) = attempt.filter(|attempt| !self.reported.contains(attempt))
            && self.reported.len() < MAX_CONNECT_ATTEMPTS
        {
            self.reported.push(attempt);
            host.send(&FromGuest::ConnectAttempted(attempt));
        }
    }

    /// Whether the script holds more record locks or connections than allowed, and so more memory
    /// that no cgroup charges.
    pub(super) fn is_over_memory_limit(&self) -> bool {
        self.locks.as_ref().is_some_and(RecordLockCounter::is_over_limit)
            || self.sockets.as_ref().is_some_and(TcpSocketCounter::is_over_limit)
    }

    /// Over the limit, the call stays suspended until its process is killed.
    fn handle_lock_call(&mut self, id: u64) {
        if self.locks.as_mut().is_none_or(RecordLockCounter::allow_call) {
            continue_call(&self.listener, id);
        }
    }
}

/// The destination of the call, if it is another machine.
fn parse_attempt(notification: &libc::seccomp_notif) -> Option<ConnectAttempt> {
    let arguments = notification.data.args;
    let (call, address, length) = match i64::from(notification.data.nr) {
        libc::SYS_connect => (ConnectCall::Connect, arguments[1], arguments[2]),
        libc::SYS_sendto => (ConnectCall::SendTo, arguments[4], arguments[5]),
        _ => return None,
    };
    let mut bytes = [0; MAX_ADDRESS_BYTES];
    let length = usize::try_from(length).ok()?.min(MAX_ADDRESS_BYTES);
    File::open(format!("/proc/{}/mem", notification.pid))
        .ok()?
        .read_exact_at(&mut bytes[..length], address)
        .ok()?;
    let to = parse_address(&bytes[..length]).filter(|to| is_external(to.ip()))?;
    Some(ConnectAttempt { call, to })
}

/// Parses an IP socket address in the kernel's memory layout.
fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Whether an address is outside of the sandbox. The unspecified address connects to loopback.
fn is_external(ip: IpAddr) -> bool {
    !ip.is_loopback() && !ip.is_unspecified()
}

fn receive(listener: &OwnedFd) -> Option<libc::seccomp_notif> {
    // SAFETY: all-zero is a valid and required value of this plain structure, which the kernel
    // fills during the call.
    unsafe {
        let mut notification: libc::seccomp_notif = std::mem::zeroed();
        let done = libc::ioctl(listener.as_raw_fd(), NOTIF_RECV, &raw mut notification);
        (done == 0).then_some(notification)
    }
}

fn continue_call(listener: &OwnedFd, id: u64) {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut response = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the structure outlives the call. An error means that the suspended process is dead.
    unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_SEND, &raw mut response) };
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`: read and write, of this size, kind
/// `!`, number.
const NOTIF_RECV: libc::Ioctl = notif_ioctl::<libc::seccomp_notif>(0);
const NOTIF_SEND: libc::Ioctl = notif_ioctl::<libc::seccomp_notif_resp>(1);

const fn notif_ioctl<T>(number: u32) -> libc::Ioctl {
    ((3 << 30) | ((size_of::<T>() as u32) << 16) | ((b'!' as u32) << 8) | number) as libc::Ioctl
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioctl_numbers_match_the_kernel_headers() {
        assert_eq!((NOTIF_RECV as u32, NOTIF_SEND as u32), (0xc050_2100, 0xc018_2101));
    }

    #[test]
    fn parses_addresses_in_kernel_layout() {
        let four = [2, 0, 1, 187, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(parse_address(&four), Some("1.2.3.4:443".parse().expect("an address")));
        let mut six = [0; MAX_ADDRESS_BYTES];
        six[..4].copy_from_slice(&[10, 0, 0, 53]);
        six[8..24].copy_from_slice(&Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
        assert_eq!(parse_address(&six), Some("[fd00::1]:53".parse().expect("an address")));
        six[8..24].copy_from_slice(&Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        assert!(parse_address(&six).is_some_and(|to| !is_external(to.ip())));
        for invalid in [&four[..7], &[1, 0, b'/', b'x'], &[], &[0; 16], &six[..20]] {
            assert_eq!(parse_address(invalid), None, "{invalid:?}");
        }
    }
}
