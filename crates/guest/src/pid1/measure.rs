//! What this process can see of its own confinement. It looks before any byte of a tenant arrives.

use std::fs;

use guest::protocol::{Measurements, paths};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, open, statvfs};
use rustix::io::Errno;

use super::cgroup::Cgroup;
use super::failure::Failure;
use super::kernel;

const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
const CAPABILITY_SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

/// What gVisor's kernel has always called itself.
const GVISOR: &[u8] = b"#1 SMP Sun Jan 10 15:06:54 PST 2016";

/// Looks at everything once.
pub fn measure(
    cgroup: Option<Cgroup>,
    witness: bool,
    private_inodes: bool,
) -> Result<Measurements<'static>, Failure> {
    let status =
        &fs::read_to_string("/proc/self/status").map_err(Failure::io("read /proc/self/status"))?;
    let root = statvfs("/").map_err(Failure::at("statvfs /"))?;
    let gvisor = is_gvisor();
    let sockets = [libc::AF_INET, libc::AF_INET6].into_iter().any(kernel::can_open_socket);
    let scratch = statvfs(paths::SANDBOX).map_err(Failure::at("statvfs /sandbox"))?;
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
        cgroup: cgroup.map(Cgroup::held),
        gvisor,
        // Without sockets there is nothing to be seen.
        witness: witness && sockets,
        routes: has_routes(),
        sockets,
        private_inodes,
    })
}

/// Whether a container's root shares its inodes with no other: an overlay has its own for every
/// file. Other ways of keeping images may or may not share.
pub fn has_overlay_root() -> bool {
    const OVERLAYFS: i64 = 0x794c_7630;
    rustix::fs::statfs("/").is_ok_and(|root| root.f_type == OVERLAYFS)
}

/// Whether the kernel is gVisor's.
pub fn is_gvisor() -> bool {
    rustix::system::uname().version().to_bytes() == GVISOR
}

/// Everything in any of the sets. What cannot be read counts as the worst, but gVisor has no
/// ambient set to show.
fn capabilities(status: &str, gvisor: bool) -> u64 {
    let shown = CAPABILITY_SETS.iter().filter(|set| !(gvisor && **set == "CapAmb"));
    shown.map(|set| hex(status, set).unwrap_or(u64::MAX)).fold(0, |all, set| all | set)
}

/// gVisor does not say so of a file system, only in its list of mounts.
fn root_is_mounted_read_only() -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some("/")
            && words.nth(1).is_some_and(|options| options.split(',').any(|o| o == "ro"))
    })
}

/// Whether any route leads further than loopback. A list that cannot be read counts as the worst;
/// the newer protocol may be missing altogether.
fn has_routes() -> bool {
    let Ok(list) = fs::read_to_string("/proc/self/net/route") else { return true };
    let newer = fs::read_to_string("/proc/self/net/ipv6_route").unwrap_or_default();
    leads_out(&list, &newer)
}

/// One list has a heading and the device in front, the other has no heading and the device at the
/// end.
fn leads_out(list: &str, newer: &str) -> bool {
    let mut devices = list.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let mut newer = newer.lines().filter_map(|line| line.split_whitespace().last());
    devices.any(|device| device != "lo") || newer.any(|device| device != "lo")
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

/// The version of Landlock, if it is what stands between us and a file whose permissions let
/// everybody write.
fn landlock() -> Option<u8> {
    let zero = |access| open("/dev/zero", access | OFlags::CLOEXEC, Mode::empty());
    let refused = zero(OFlags::RDONLY).is_ok() && zero(OFlags::WRONLY).err() == Some(Errno::ACCESS);
    // The first version is the least that can have refused it, when the filter does not let us ask.
    refused.then(|| landlock_version().unwrap_or(1))
}

fn landlock_version() -> Option<u8> {
    const ASK_FOR_VERSION: libc::c_ulong = 1;
    // SAFETY: with this flag the kernel takes no pointer and only returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, ASK_FOR_VERSION)
    };
    u8::try_from(version).ok().filter(|&version| version > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tguest\nCapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n";

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(field(STATUS, "Seccomp"), Some("2"));
        assert_eq!(field(STATUS, "NoNewPrivs"), Some("1"));
        assert_eq!(field(STATUS, "Sec"), None);
        assert_eq!(hex(STATUS, "CapEff"), Some(0x1ff_ffff_ffff));
        assert_eq!(hex(STATUS, "CapBnd"), None);
    }

    #[test]
    fn a_route_that_leads_out_is_seen() {
        let heading = "Iface\tDestination\tGateway \tFlags\n";
        let newer = "00000000000000000000000000000001 80 0 00 0 00000000 00000002 00000000 80200001       lo\n";
        assert!(!leads_out(heading, newer) && !leads_out("", ""));
        assert!(leads_out(&format!("{heading}eth0\t00000000\t0101A8C0\t0003\n"), newer));
        assert!(leads_out(heading, &newer.replace("lo", "eth0")));
    }

    #[test]
    fn namespaces_of_this_process_are_read() {
        assert!(namespace("pid").is_some_and(|inode| inode > 0));
        assert_eq!(namespace("nothing"), None);
    }
}
