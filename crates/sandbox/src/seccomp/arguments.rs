//! Listed calls that are refused (`EPERM`) with certain arguments.
//!
//! Where a call is a family of its own, only the named members of it are left: what a kernel to
//! come adds to `fcntl`, `ioctl`, `prctl` or `setsockopt` is refused until somebody needs it.

use std::collections::BTreeMap;

/// The only socket families.
pub const SOCKET_FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// The same on the host's network, where the names of its abstract Unix sockets live too: whoever
/// can open such a socket there can speak to the host's own services. Pairs of them have no name,
/// and stay.
pub const HOST_NETWORK_FAMILIES: [i32; 2] = [libc::AF_INET, libc::AF_INET6];

/// The same where a network stands around that no script is to reach: no socket but those between
/// processes.
pub const FAMILIES_WITHOUT_NETWORK: [i32; 1] = [libc::AF_UNIX];

/// The only protocols: the usual one of the family, by default or by name. Others are rarely used
/// code of the kernel, some of which it loads at the mere asking. Not the name that Unix sockets
/// have for theirs: its number is that of ICMP, and would make ping sockets.
const SOCKET_PROTOCOLS: [i32; 3] = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];

/// The old way to a packet socket, whatever the family; libc calls its own name for it deprecated.
const SOCK_PACKET: i32 = 10;

/// Kinds of sockets that are not streams, datagrams or sequences of packets.
const REFUSED_SOCKETS: [i32; 4] = [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_DCCP, SOCK_PACKET];

/// Flags of `clone` that would make a namespace. `clone3`, whose flags a filter cannot see, is not
/// listed at all, and C libraries fall back to `clone`.
const NAMESPACE_FLAGS: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    0x80, // CLONE_NEWTIME
];

/// Descriptors belong to a process: its threads share them, and nobody else does. Otherwise record
/// locks, which belong to the table of descriptors, could outlive the process that the kernel names
/// as their holder, and be counted by nobody.
const OF_A_THREAD: u32 = (libc::CLONE_FILES | libc::CLONE_THREAD) as u32;
const HALF_THREADS: [i32; 2] = [libc::CLONE_FILES, libc::CLONE_THREAD];

/// What is done with descriptors, and record locks of processes, which SQLite lives on; the guest
/// counts those. Locks of open files (`F_OFD_SETLK`) cannot be counted from inside. Leases and
/// `F_NOTIFY` tell of what others do with a file.
const FCNTL_COMMANDS: [i32; 13] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_SETPIPE_SZ,
    libc::F_GETPIPE_SZ,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];

/// The commands that create a record lock. The kernel charges the memory of locks to no control
/// group.
pub const LOCK_COMMANDS: [i32; 2] = [libc::F_SETLK, libc::F_SETLKW];

/// What programs ask of a descriptor that may be a terminal, of which there is none inside, and of
/// one that they read.
const IOCTL_REQUESTS: [i32; 10] = [
    libc::TCGETS as i32,
    libc::TCGETS2 as i32,
    libc::TIOCGWINSZ as i32,
    libc::TIOCGPGRP as i32,
    libc::FIONREAD as i32,
    libc::FIONBIO as i32,
    libc::FIOCLEX as i32,
    libc::FIONCLEX as i32,
    // The guest's: to look at calls that wait. A script has no descriptor for them.
    0xc050_2100_u32 as i32, // SECCOMP_IOCTL_NOTIF_RECV
    0xc018_2101_u32 as i32, // SECCOMP_IOCTL_NOTIF_SEND
];

/// Of `prctl` what programs do with their own name, with their children, and to give up more. Not
/// among them: merging pages with those of other runs (KSM), filters, tools for checkpoints, and
/// keeping half of a core idle.
const PRCTL_OPERATIONS: [i32; 15] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_PDEATHSIG,
    libc::PR_GET_PDEATHSIG,
    libc::PR_SET_DUMPABLE,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_CHILD_SUBREAPER,
    libc::PR_GET_CHILD_SUBREAPER,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_KEEPCAPS,
];

/// Of `madvise` everything but what lets the kernel merge pages with those of other runs, takes a
/// shared file out of memory, or plays a broken memory chip.
const ADVICE_ON_MEMORY: [i32; 18] = [
    libc::MADV_NORMAL,
    libc::MADV_RANDOM,
    libc::MADV_SEQUENTIAL,
    libc::MADV_WILLNEED,
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_REMOVE,
    libc::MADV_DONTFORK,
    libc::MADV_DOFORK,
    libc::MADV_HUGEPAGE,
    libc::MADV_NOHUGEPAGE,
    libc::MADV_DONTDUMP,
    libc::MADV_DODUMP,
    libc::MADV_WIPEONFORK,
    libc::MADV_KEEPONFORK,
    libc::MADV_COLLAPSE,
    102, // MADV_GUARD_INSTALL, which C libraries put below stacks
    103, // MADV_GUARD_REMOVE
];

/// Of `fadvise64` everything but `POSIX_FADV_DONTNEED`, which takes a shared file out of memory.
const ADVICE_ON_FILES: [i32; 5] = [
    libc::POSIX_FADV_NORMAL,
    libc::POSIX_FADV_RANDOM,
    libc::POSIX_FADV_SEQUENTIAL,
    libc::POSIX_FADV_WILLNEED,
    libc::POSIX_FADV_NOREUSE,
];

/// Options of sockets by level: those of ordinary clients and servers on loopback. Not among them:
/// programs for the kernel (`SO_ATTACH_FILTER` and its kin; Linux 6.18 may never come back from
/// freeing a thousand of them), other protocols inside of TCP and UDP (`TCP_ULP`, `UDP_ENCAP`), and
/// multicast groups, whose memory is charged to nobody.
const SOCKET_OPTIONS: [(i32, &[i32]); 4] = [
    (
        libc::SOL_SOCKET,
        &[
            libc::SO_REUSEADDR,
            libc::SO_REUSEPORT,
            libc::SO_BROADCAST,
            libc::SO_SNDBUF,
            libc::SO_RCVBUF,
            libc::SO_KEEPALIVE,
            libc::SO_LINGER,
            libc::SO_PASSCRED,
            libc::SO_RCVTIMEO,
            libc::SO_SNDTIMEO,
        ],
    ),
    (
        libc::IPPROTO_TCP,
        &[
            libc::TCP_NODELAY,
            libc::TCP_CORK,
            libc::TCP_KEEPIDLE,
            libc::TCP_KEEPINTVL,
            libc::TCP_KEEPCNT,
            libc::TCP_DEFER_ACCEPT,
            libc::TCP_QUICKACK,
            libc::TCP_USER_TIMEOUT,
        ],
    ),
    (
        libc::IPPROTO_IP,
        &[
            libc::IP_TOS,
            libc::IP_TTL,
            libc::IP_RECVERR,
            libc::IP_MTU_DISCOVER,
            libc::IP_BIND_ADDRESS_NO_PORT,
        ],
    ),
    (libc::IPPROTO_IPV6, &[libc::IPV6_V6ONLY, libc::IPV6_RECVERR, libc::IPV6_MTU_DISCOVER]),
];

const SOCKET_LEVELS: [i32; 4] =
    [SOCKET_OPTIONS[0].0, SOCKET_OPTIONS[1].0, SOCKET_OPTIONS[2].0, SOCKET_OPTIONS[3].0];

/// One test of one argument, of which only the lower half counts, as it does for the kernel.
#[derive(Debug, Clone, Copy)]
pub enum Test {
    /// These bits have this value.
    Bits { argument: u8, mask: u32, value: u32 },
    /// It is none of these.
    NoneOf { argument: u8, values: &'static [i32] },
}

/// The listed calls that are refused when one of their rules holds; a rule holds when all its tests
/// do.
pub fn refusals(families: &'static [i32]) -> BTreeMap<i64, Vec<Vec<Test>>> {
    BTreeMap::from([
        (libc::SYS_clone, clones()),
        (libc::SYS_socket, other_sockets(families)),
        (libc::SYS_socketpair, other_sockets(&SOCKET_FAMILIES)),
        (libc::SYS_setsockopt, other_socket_options()),
        // The way to a connection past `connect`, where they are counted.
        (libc::SYS_sendto, vec![vec![flag(3, libc::MSG_FASTOPEN as u32)]]),
        (libc::SYS_sendmsg, vec![vec![flag(2, libc::MSG_FASTOPEN as u32)]]),
        (libc::SYS_sendmmsg, vec![vec![flag(3, libc::MSG_FASTOPEN as u32)]]),
        (libc::SYS_fcntl, vec![none_of(1, &FCNTL_COMMANDS)]),
        (libc::SYS_mknod, devices(1)),
        (libc::SYS_mknodat, devices(2)),
        (libc::SYS_ioctl, vec![none_of(1, &IOCTL_REQUESTS)]),
        (libc::SYS_prctl, vec![none_of(0, &PRCTL_OPERATIONS)]),
        (libc::SYS_madvise, vec![none_of(2, &ADVICE_ON_MEMORY)]),
        (libc::SYS_fadvise64, vec![none_of(3, &ADVICE_ON_FILES)]),
        // Huge pages come from a pool of the host's, and no memory limit knows of them.
        (libc::SYS_mmap, vec![vec![flag(3, libc::MAP_HUGETLB as u32)]]),
        (libc::SYS_memfd_create, vec![vec![flag(1, libc::MFD_HUGETLB)]]),
    ])
}

fn bits(argument: u8, mask: u32, value: u32) -> Test {
    Test::Bits { argument, mask, value }
}

fn flag(argument: u8, bit: u32) -> Test {
    bits(argument, bit, bit)
}

fn none_of(argument: u8, values: &'static [i32]) -> Vec<Test> {
    vec![Test::NoneOf { argument, values }]
}

fn clones() -> Vec<Vec<Test>> {
    let namespaces = NAMESPACE_FLAGS.iter().map(|new| vec![flag(0, *new as u32)]);
    let half_threads = HALF_THREADS.iter().map(|half| vec![bits(0, OF_A_THREAD, *half as u32)]);
    namespaces.chain(half_threads).collect()
}

fn other_sockets(families: &'static [i32]) -> Vec<Vec<Test>> {
    // The kind shares its argument with two flags.
    let kinds = REFUSED_SOCKETS.iter().map(|kind| vec![bits(1, 0xf, *kind as u32)]);
    [none_of(0, families), none_of(2, &SOCKET_PROTOCOLS)].into_iter().chain(kinds).collect()
}

fn other_socket_options() -> Vec<Vec<Test>> {
    let of_a_level = |(level, options): &(i32, &'static [i32])| {
        vec![bits(1, u32::MAX, *level as u32), Test::NoneOf { argument: 2, values: options }]
    };
    std::iter::once(none_of(1, &SOCKET_LEVELS))
        .chain(SOCKET_OPTIONS.iter().map(of_a_level))
        .collect()
}

fn devices(argument: u8) -> Vec<Vec<Test>> {
    [libc::S_IFCHR, libc::S_IFBLK].map(|kind| vec![bits(argument, libc::S_IFMT, kind)]).to_vec()
}
