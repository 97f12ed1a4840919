//! Argument rules: allowed calls that are denied (`EPERM`) with certain arguments.
//!
//! Calls that multiplex many operations have an allowlist of operations: what a future kernel adds
//! to `fcntl`, `ioctl`, `prctl` or `setsockopt` is denied until a script needs it.

use std::collections::BTreeMap;

/// The allowed socket families.
pub(super) const SOCKET_FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// The allowed socket families on the host's network. Its namespace also has the abstract Unix
/// sockets of the host's services, so Unix sockets are denied; socket pairs, which have no name,
/// are allowed.
pub(super) const HOST_NETWORK_FAMILIES: [i32; 2] = [libc::AF_INET, libc::AF_INET6];

/// The allowed socket families where the network namespace has external access (a pod's): only Unix
/// sockets.
pub(super) const FAMILIES_WITHOUT_NETWORK: [i32; 1] = [libc::AF_UNIX];

/// The allowed protocols: the default of the family, or TCP and UDP by name. Others are rarely used
/// kernel code, some of which is loaded on demand. The protocol number of Unix sockets is excluded:
/// it is also that of ICMP, and would allow ping sockets.
const SOCKET_PROTOCOLS: [i32; 3] = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];

/// The obsolete type that creates a packet socket in any family; libc's own constant is deprecated.
const SOCK_PACKET: i32 = 10;

/// The denied socket types: everything except streams, datagrams and sequenced packets.
const DENIED_SOCKET_TYPES: [i32; 4] =
    [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_DCCP, SOCK_PACKET];

/// The flags of `clone` that create a namespace. `clone3`, whose flags a filter cannot inspect, is
/// not on the allowlist; C libraries fall back to `clone`.
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

/// Descriptor tables are shared by the threads of a process and by no other process: `CLONE_FILES`
/// and `CLONE_THREAD` are denied without each other. Otherwise record locks, which belong to the
/// descriptor table, could outlive the process that the kernel lists as their holder, and would not
/// be counted.
const THREAD_FLAGS: u32 = (libc::CLONE_FILES | libc::CLONE_THREAD) as u32;
const SINGLE_THREAD_FLAGS: [i32; 2] = [libc::CLONE_FILES, libc::CLONE_THREAD];

/// The allowed operations: on descriptors, and record locks of processes, which SQLite needs and
/// the guest counts. Denied are locks of open files (`F_OFD_SETLK`), which cannot be counted from
/// inside, and leases and `F_NOTIFY`, which reveal what other processes do with a file.
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

/// The commands that create a record lock. The kernel charges the memory of locks to no cgroup.
pub(super) const LOCK_COMMANDS: [i32; 2] = [libc::F_SETLK, libc::F_SETLKW];

/// The allowed requests: queries for terminals (there is none inside), and flags of descriptors.
const IOCTL_REQUESTS: [i32; 10] = [
    libc::TCGETS as i32,
    libc::TCGETS2 as i32,
    libc::TIOCGWINSZ as i32,
    libc::TIOCGPGRP as i32,
    libc::FIONREAD as i32,
    libc::FIONBIO as i32,
    libc::FIOCLEX as i32,
    libc::FIONCLEX as i32,
    // Used by the guest to handle suspended calls. Scripts have no such descriptor.
    0xc050_2100_u32 as i32, // SECCOMP_IOCTL_NOTIF_RECV
    0xc018_2101_u32 as i32, // SECCOMP_IOCTL_NOTIF_SEND
];

/// The allowed operations: process names, child handling, and giving up privileges. Denied are,
/// among others, merging pages with those of other runs (KSM), filters, checkpoint tools, and core
/// scheduling, which can keep half of a core idle.
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

/// The allowed advice: all except merging pages with those of other runs, evicting a shared file
/// from memory, and simulating a memory failure.
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

/// The allowed advice: all except `POSIX_FADV_DONTNEED`, which evicts a shared file from memory.
const ADVICE_ON_FILES: [i32; 5] = [
    libc::POSIX_FADV_NORMAL,
    libc::POSIX_FADV_RANDOM,
    libc::POSIX_FADV_SEQUENTIAL,
    libc::POSIX_FADV_WILLNEED,
    libc::POSIX_FADV_NOREUSE,
];

/// The allowed socket options by level: those of ordinary clients and servers on loopback. Denied
/// are, among others, BPF programs (`SO_ATTACH_FILTER` and similar; Linux 6.18 may hang while it
/// frees a thousand of them), protocols inside of TCP and UDP (`TCP_ULP`, `UDP_ENCAP`), and
/// multicast groups, whose memory is charged to no cgroup.
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

/// A test of one argument. Only its lower 32 bits are tested, which are all that the kernel uses.
#[derive(Debug, Clone, Copy)]
pub(super) enum ArgumentTest {
    /// These bits have this value.
    Bits { argument: u8, mask: u32, value: u32 },
    /// It is none of these.
    NoneOf { argument: u8, values: &'static [i32] },
}

/// The argument rules by call. A call is denied if one of its rules matches; a rule matches if all
/// of its tests do.
pub(super) fn denied_arguments(families: &'static [i32]) -> BTreeMap<i64, Vec<Vec<ArgumentTest>>> {
    BTreeMap::from([
        (libc::SYS_clone, clone_rules()),
        (libc::SYS_socket, socket_rules(families)),
        (libc::SYS_socketpair, socket_rules(&SOCKET_FAMILIES)),
        (libc::SYS_setsockopt, socket_option_rules()),
        // TCP fast open connects without `connect`, where connections are counted.
        (libc::SYS_sendto, vec![vec![flag(3, libc::MSG_FASTOPEN as u32)]]),
        (libc::SYS_sendmsg, vec![vec![flag(2, libc::MSG_FASTOPEN as u32)]]),
        (libc::SYS_sendmmsg, vec![vec![flag(3, libc::MSG_FASTOPEN as u32)]]),
        (libc::SYS_fcntl, vec![none_of(1, &FCNTL_COMMANDS)]),
        (libc::SYS_mknod, device_rules(1)),
        (libc::SYS_mknodat, device_rules(2)),
        (libc::SYS_ioctl, vec![none_of(1, &IOCTL_REQUESTS)]),
        (libc::SYS_prctl, vec![none_of(0, &PRCTL_OPERATIONS)]),
        (libc::SYS_madvise, vec![none_of(2, &ADVICE_ON_MEMORY)]),
        (libc::SYS_fadvise64, vec![none_of(3, &ADVICE_ON_FILES)]),
        // Huge pages come from a pool of the host, and the memory limit does not include them.
        (libc::SYS_mmap, vec![vec![flag(3, libc::MAP_HUGETLB as u32)]]),
        (libc::SYS_memfd_create, vec![vec![flag(1, libc::MFD_HUGETLB)]]),
    ])
}

fn bits(argument: u8, mask: u32, value: u32) -> ArgumentTest {
    ArgumentTest::Bits { argument, mask, value }
}

fn flag(argument: u8, bit: u32) -> ArgumentTest {
    bits(argument, bit, bit)
}

fn none_of(argument: u8, values: &'static [i32]) -> Vec<ArgumentTest> {
    vec![ArgumentTest::NoneOf { argument, values }]
}

fn clone_rules() -> Vec<Vec<ArgumentTest>> {
    let namespaces = NAMESPACE_FLAGS.iter().map(|new| vec![flag(0, *new as u32)]);
    let thread_flags =
        SINGLE_THREAD_FLAGS.iter().map(|flag| vec![bits(0, THREAD_FLAGS, *flag as u32)]);
    namespaces.chain(thread_flags).collect()
}

fn socket_rules(families: &'static [i32]) -> Vec<Vec<ArgumentTest>> {
    // The type shares its argument with two flags.
    let kinds = DENIED_SOCKET_TYPES.iter().map(|kind| vec![bits(1, 0xf, *kind as u32)]);
    [none_of(0, families), none_of(2, &SOCKET_PROTOCOLS)].into_iter().chain(kinds).collect()
}

fn socket_option_rules() -> Vec<Vec<ArgumentTest>> {
    let of_a_level = |(level, options): &(i32, &'static [i32])| {
        vec![
            bits(1, u32::MAX, *level as u32),
            ArgumentTest::NoneOf { argument: 2, values: options },
        ]
    };
    std::iter::once(none_of(1, &SOCKET_LEVELS))
        .chain(SOCKET_OPTIONS.iter().map(of_a_level))
        .collect()
}

fn device_rules(argument: u8) -> Vec<Vec<ArgumentTest>> {
    [libc::S_IFCHR, libc::S_IFBLK].map(|kind| vec![bits(argument, libc::S_IFMT, kind)]).to_vec()
}
