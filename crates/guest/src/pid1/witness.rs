//! Sees the script's calls for other machines, lets every one of them go on, and tells the host of
//! those that lead out. Calls for record locks come by here too, and those and connections are
//! counted: they take memory that nobody charges.
//!
//! It decides nothing about the network: the namespace does. A script with two threads can change
//! an address after it was read here, so what is told is what the script showed, not proof of what
//! it did.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use guest::jail::WITNESS_FD;
use guest::protocol::{ConnectAttempt, ConnectCall, FromGuest, MAX_CONNECT_ATTEMPTS};
use rustix::io::{FdFlags, fcntl_setfd};

use super::channel::Channel;
use super::locks::Locks;
use super::sockets::Sockets;

/// What the kernel calls such a descriptor.
const KIND: &str = "anon_inode:seccomp notify";

/// The longest address that is looked at: that of IPv6.
const ADDRESS: usize = 28;

pub struct Witness {
    listener: OwnedFd,
    told: Vec<ConnectAttempt>,
    /// Where there is none, a filter refuses record locks.
    locks: Option<Locks>,
    /// None where the network is not the sandbox's own.
    sockets: Option<Sockets>,
}

impl Witness {
    pub fn new(listener: OwnedFd, locks: Option<Locks>) -> Witness {
        // All of it now: later the script may leave no memory.
        Witness {
            listener,
            told: Vec::with_capacity(MAX_CONNECT_ATTEMPTS),
            locks,
            sockets: Sockets::open(),
        }
    }

    /// The one that the launcher left for this process, if the kernel gave it one.
    pub fn left_by_the_launcher() -> Option<Witness> {
        let link = std::fs::read_link(format!("/proc/self/fd/{WITNESS_FD}")).ok()?;
        if link.as_os_str() != KIND {
            return None;
        }
        // SAFETY: the launcher left this descriptor for us, as its kind shows, and nobody else here
        // owns it.
        let listener = unsafe { OwnedFd::from_raw_fd(WITNESS_FD) };
        fcntl_setfd(&listener, FdFlags::CLOEXEC).ok()?;
        Some(Witness::new(listener, Locks::left_by_the_launcher()))
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Looks at one call that waits, and lets it go on.
    pub fn look(&mut self, host: &mut Channel) {
        // Whoever waited may be dead by now; then there is nothing to look at.
        let Some(waiting) = receive(&self.listener) else { return };
        if i64::from(waiting.data.nr) == libc::SYS_fcntl {
            return self.count_lock(waiting.id);
        }
        if !self.sockets.as_mut().is_none_or(Sockets::admit) {
            return;
        }
        let attempt = attempt(&waiting);
        go_on(&self.listener, waiting.id);
        if let Some(attempt) = attempt.filter(|attempt| !self.told.contains(attempt))
            && self.told.len() < MAX_CONNECT_ATTEMPTS
        {
            self.told.push(attempt);
            host.send(&FromGuest::Tried(attempt));
        }
    }
}

impl Witness {
    /// Whether the script holds more record locks or connections than it may, which is how it takes
    /// memory that nobody charges.
    pub fn saw_too_much_memory(&self) -> bool {
        self.locks.as_ref().is_some_and(Locks::are_too_many)
            || self.sockets.as_ref().is_some_and(Sockets::are_too_many)
    }

    /// A call that is not admitted waits until its process is killed.
    fn count_lock(&mut self, id: u64) {
        if self.locks.as_mut().is_none_or(Locks::admit) {
            go_on(&self.listener, id);
        }
    }
}

/// What the call asks for, if that is another machine.
fn attempt(waiting: &libc::seccomp_notif) -> Option<ConnectAttempt> {
    let arguments = waiting.data.args;
    let (call, address, length) = match i64::from(waiting.data.nr) {
        libc::SYS_connect => (ConnectCall::Connect, arguments[1], arguments[2]),
        libc::SYS_sendto => (ConnectCall::SendTo, arguments[4], arguments[5]),
        _ => return None,
    };
    let mut bytes = [0; ADDRESS];
    let length = usize::try_from(length).ok()?.min(ADDRESS);
    File::open(format!("/proc/{}/mem", waiting.pid))
        .ok()?
        .read_exact_at(&mut bytes[..length], address)
        .ok()?;
    let to = parse(&bytes[..length]).filter(|to| leads_out(to.ip()))?;
    Some(ConnectAttempt { call, to })
}

/// An address as the kernel has it in memory; only those of IP.
fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Loopback is the sandbox's own, and no address at all means it too.
fn leads_out(ip: IpAddr) -> bool {
    !ip.is_loopback() && !ip.is_unspecified()
}

fn receive(listener: &OwnedFd) -> Option<libc::seccomp_notif> {
    // SAFETY: the structure is plain and must be all zero; the kernel fills it during the call.
    unsafe {
        let mut waiting: libc::seccomp_notif = std::mem::zeroed();
        let done = libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut waiting);
        (done == 0).then_some(waiting)
    }
}

fn go_on(listener: &OwnedFd, id: u64) {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the structure outlives the call. An error means that the caller is dead, and nobody
    // waits.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw mut answer) };
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`: read and write, of this size, kind
/// `!`, number.
const RECEIVE: libc::Ioctl = request::<libc::seccomp_notif>(0);
const SEND: libc::Ioctl = request::<libc::seccomp_notif_resp>(1);

const fn request<T>(number: u32) -> libc::Ioctl {
    ((3 << 30) | ((size_of::<T>() as u32) << 16) | ((b'!' as u32) << 8) | number) as libc::Ioctl
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_numbers() {
        assert_eq!((RECEIVE as u32, SEND as u32), (0xc050_2100, 0xc018_2101));
    }

    #[test]
    fn addresses_are_read_as_the_kernel_has_them() {
        let four = [2, 0, 1, 187, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(parse(&four), Some("1.2.3.4:443".parse().expect("an address")));
        let mut six = [0; ADDRESS];
        six[..4].copy_from_slice(&[10, 0, 0, 53]);
        six[8..24].copy_from_slice(&Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
        assert_eq!(parse(&six), Some("[fd00::1]:53".parse().expect("an address")));
        six[8..24].copy_from_slice(&Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        assert!(parse(&six).is_some_and(|to| !leads_out(to.ip())));
        for nothing in [&four[..7], &[1, 0, b'/', b'x'], &[], &[0; 16], &six[..20]] {
            assert_eq!(parse(nothing), None, "{nothing:?}");
        }
    }
}
