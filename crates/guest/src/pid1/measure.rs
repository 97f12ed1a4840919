//! Measures the confinement of this process, before any byte of a tenant arrives.

use std::fs;

use guest::protocol::{Measurements, paths};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, open, statvfs};
use rustix::io::Errno;

use super::cgroup::Cgroup;
use super::failure::SetupFailure;
use super::kernel;

const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
const CAPABILITY_SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

/// The version string of gVisor's kernel, which has never changed.
const GVISOR_VERSION: &[u8] = b"#1 SMP Sun Jan 10 15:06:54 PST 2016";

/// Takes all measurements.
pub(super) fn measure(
    cgroup: Option<Cgroup>,
    has_listener: bool,
    private_inodes: bool,
) -> Result<Measurements<'static>, SetupFailure> {
    let status = &fs::read_to_string("/proc/self/status")
        .map_err(SetupFailure::io("read /proc/self/status"))?;
    let root = statvfs("/").map_err(SetupFailure::at("statvfs /"))?;
    let gvisor = is_gvisor();
    let sockets = [libc::AF_INET, libc::AF_INET6].into_iter().any(kernel::can_open_socket);
    let scratch = statvfs(paths::SANDBOX).map_err(SetupFailure::at("statvfs /sandbox"))?;
    Ok(Measurements {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        capabilities: capabilities(status, gvisor),
        no_new_privileges: rustix::thread::no_new_privs().unwrap_or(false),
        seccomp: field(status, "Seccomp").and_then(|mode| mode.parse().ok()).unwrap_or(0),
        landlock: landlock(),
        namespaces: NAMESPACES.iter().filter_map(|&name| Some((name, namespace(name)?))).collect(),
        root_read_only: root.f_flag.contains(StatVfsMountFlags::RDONLY)
            || (gvisor && root_is_mounted_read_only()),
        scratch_bytes: scratch.f_blocks.saturating_mul(scratch.f_frsize),
        scratch_inodes: scratch.f_files,
        cgroup: cgroup.map(Cgroup::limits),
        gvisor,
        // Without sockets no connect attempt reaches the filter.
        observes_connects: has_listener && sockets,
        routes: has_routes(),
        sockets,
        private_inodes,
    })
}

/// Whether a container's root shares no inode with another container: an overlay has inodes of its
/// own. Other storage drivers may or may not share inodes.
pub(super) fn has_overlay_root() -> bool {
    const OVERLAYFS: i64 = 0x794c_7630;
    rustix::fs::statfs("/").is_ok_and(|root| root.f_type == OVERLAYFS)
}

/// Whether the kernel is gVisor's.
pub(super) fn is_gvisor() -> bool {
    rustix::system::uname().version().to_bytes() == GVISOR_VERSION
}

/// The union of the capability sets. A set that cannot be read counts as full; gVisor does not
/// report an ambient set.
fn capabilities(status: &str, gvisor: bool) -> u64 {
    let shown = CAPABILITY_SETS.iter().filter(|set| !(gvisor && **set == "CapAmb"));
    shown.map(|set| hex(status, set).unwrap_or(u64::MAX)).fold(0, |all, set| all | set)
}

/// gVisor does not report read-only mounts in `statvfs`, only in its list of mounts.
fn root_is_mounted_read_only() -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some("/")
            && words.nth(1).is_some_and(|options| options.split(',').any(|o| o == "ro"))
    })
}

/// Whether there is a route beyond loopback. If the IPv4 list cannot be read, assume so; the IPv6
/// list may be missing.
fn has_routes() -> bool {
    let Ok(list) = fs::read_to_string("/proc/self/net/route") else { return true };
    let ipv6 = fs::read_to_string("/proc/self/net/ipv6_route").unwrap_or_default();
    has_external_route(&list, &ipv6)
}

/// The IPv4 list has a heading line and the device in the first column; the IPv6 list has no
/// heading and the device in the last column.
fn has_external_route(ipv4: &str, ipv6: &str) -> bool {
    let mut devices = ipv4.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let mut ipv6 = ipv6.lines().filter_map(|line| line.split_whitespace().last());
    devices.any(|device| device != "lo") || ipv6.any(|device| device != "lo")
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

fn hex(status: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(field(status, name)?, 16).ok()
}

/// The inode in a link such as `net:[4026531840]`.
fn namespace(name: &str) -> Option<u64> {
    let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
    link.to_str()?.strip_prefix(name)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
}

/// The Landlock ABI, if Landlock is in force: it must deny writing a file that is
/// world-writable.
fn landlock() -> Option<u8> {
    let zero = |access| open("/dev/zero", access | OFlags::CLOEXEC, Mode::empty());
    let refused = zero(OFlags::RDONLY).is_ok() && zero(OFlags::WRONLY).err() == Some(Errno::ACCESS);
    // The seccomp filter may forbid the query. ABI 1 is the lowest that denies the write.
    refused.then(|| landlock_version().unwrap_or(1))
}

fn landlock_version() -> Option<u8> {
    const CREATE_RULESET_VERSION: libc::c_ulong = 1;
    // SAFETY: with this flag the kernel dereferences no pointer and only returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, CREATE_RULESET_VERSION)
    };
    u8::try_from(version).ok().filter(|&version| version > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tguest\nCapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n";

    #[test]
    fn finds_fields_by_their_whole_name() {
        assert_eq!(field(STATUS, "Seccomp"), Some("2"));
        assert_eq!(field(STATUS, "NoNewPrivs"), Some("1"));
        assert_eq!(field(STATUS, "Sec"), None);
        assert_eq!(hex(STATUS, "CapEff"), Some(0x1ff_ffff_ffff));
        assert_eq!(hex(STATUS, "CapBnd"), None);
    }

    #[test]
    fn detects_routes_beyond_loopback() {
        let heading = "Iface\tDestination\tGateway \tFlags\n";
        let ipv6 = "00000000000000000000000000000001 80 0 00 0 00000000 00000002 00000000 80200001       lo\n";
        assert!(!has_external_route(heading, ipv6) && !has_external_route("", ""));
        assert!(has_external_route(&format!("{heading}eth0\t00000000\t0101A8C0\t0003\n"), ipv6));
        assert!(has_external_route(heading, &ipv6.replace("lo", "eth0")));
    }

    #[test]
    fn reads_the_namespaces_of_this_process() {
        assert!(namespace("pid").is_some_and(|inode| inode > 0));
        assert_eq!(namespace("unknown"), None);
    }
}
