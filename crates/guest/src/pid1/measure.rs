//! What this process can see of its own confinement. It looks before any byte of a tenant arrives.

use std::fs;

use guest::protocol::{Measured, paths};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, open, statvfs};
use rustix::io::Errno;

use super::failure::Failure;

const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
const CAPABILITY_SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

/// Looks at everything once.
pub fn measure() -> Result<Measured<'static>, Failure> {
    let status = &fs::read_to_string("/proc/self/status").map_err(Failure::io("read /proc/self/status"))?;
    let root = statvfs("/").map_err(Failure::at("statvfs /"))?;
    let scratch = statvfs(paths::SANDBOX).map_err(Failure::at("statvfs /sandbox"))?;
    Ok(Measured {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        // What cannot be read counts as the worst.
        capabilities: CAPABILITY_SETS.iter().map(|set| hex(status, set).unwrap_or(u64::MAX)).fold(0, |a, b| a | b),
        no_new_privileges: field(status, "NoNewPrivs") == Some("1"),
        seccomp: field(status, "Seccomp").and_then(|mode| mode.parse().ok()).unwrap_or(0),
        landlock: landlock(),
        namespaces: NAMESPACES.iter().filter_map(|&name| Some((name, namespace(name)?))).collect(),
        root_read_only: root.f_flag.contains(StatVfsMountFlags::RDONLY),
        scratch_bytes: scratch.f_blocks.saturating_mul(scratch.f_frsize),
        scratch_inodes: scratch.f_files,
    })
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

/// The version of Landlock, if it is what stands between us and a file whose permissions let everybody write.
fn landlock() -> Option<u8> {
    let zero = |access| open("/dev/zero", access | OFlags::CLOEXEC, Mode::empty());
    let refused = zero(OFlags::RDONLY).is_ok() && zero(OFlags::WRONLY).err() == Some(Errno::ACCESS);
    // The first version is the least that can have refused it, when the filter does not let us ask.
    refused.then(|| landlock_version().unwrap_or(1))
}

fn landlock_version() -> Option<u8> {
    const ASK_FOR_VERSION: libc::c_ulong = 1;
    // SAFETY: with this flag the kernel takes no pointer and only returns a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, ASK_FOR_VERSION) };
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
    fn namespaces_of_this_process_are_read() {
        assert!(namespace("pid").is_some_and(|inode| inode > 0));
        assert_eq!(namespace("nothing"), None);
    }
}
