//! The system calls a sandbox may make, as data.
//!
//! Three filters, of which the kernel takes the stricter answer. The first knows calls by number only: what is
//! not on the list does not exist (`ENOSYS`), which programs take as an old kernel and work around; because it
//! looks at no argument, the kernel answers it from a bitmap. The second refuses (`EPERM`) listed calls with
//! arguments that no script needs. The third says yes to one call and does nothing. None kills: a crash that looks
//! random helps nobody.
//!
//! `program` makes what the kernel takes of these lists, `profile` what container engines take.

mod profile;
mod program;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use guest::jail::Network;
pub use profile::profile;

/// A system call, by the number it has here and the name it has everywhere.
pub struct Call {
    /// As libc spells it: `SYS_read`.
    constant: &'static str,
    number: i64,
}

impl Call {
    fn name(&self) -> &'static str {
        self.constant.trim_start_matches("SYS_")
    }
}

macro_rules! calls {
    ($($call:ident),* $(,)?) => { &[$(Call { constant: stringify!($call), number: libc::$call }),*] };
}

/// Calls that exist inside, by what they are for.
#[rustfmt::skip] // One call a line would make three hundred lines of it.
pub const ALLOWED: &[(&str, &[Call])] = &[
    (
        "reading and writing what is open; `sync` and `syncfs` would make the host write all of its own",
        calls![
            SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64,
            SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2,
            SYS_lseek, SYS_sendfile, SYS_splice, SYS_tee, SYS_vmsplice,
            SYS_copy_file_range, SYS_fsync, SYS_fdatasync, SYS_sync_file_range,
            SYS_fadvise64, SYS_readahead, SYS_ioctl,
        ],
    ),
    (
        "opening, closing and duplicating descriptors",
        calls![
            SYS_open, SYS_openat, SYS_openat2, SYS_creat, SYS_close,
            SYS_close_range, SYS_dup, SYS_dup2, SYS_dup3, SYS_fcntl,
            SYS_flock, SYS_pipe, SYS_pipe2, SYS_memfd_create,
        ],
    ),
    (
        "looking at files; not `inotify`, which sees who else opens the interpreters' files, and counts as root's own",
        calls![
            SYS_stat, SYS_fstat, SYS_lstat, SYS_newfstatat, SYS_statx,
            SYS_statfs, SYS_fstatfs, SYS_access, SYS_faccessat, SYS_faccessat2,
            SYS_readlink, SYS_readlinkat, SYS_getdents, SYS_getdents64,
            SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_getxattr, SYS_lgetxattr,
            SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr,
        ],
    ),
    (
        "changing files; mounts and Landlock say which",
        calls![
            SYS_mkdir, SYS_mkdirat, SYS_rmdir, SYS_unlink, SYS_unlinkat,
            SYS_rename, SYS_renameat, SYS_renameat2, SYS_link, SYS_linkat,
            SYS_symlink, SYS_symlinkat, SYS_truncate, SYS_ftruncate,
            SYS_fallocate, SYS_chmod, SYS_fchmod, SYS_fchmodat, SYS_fchmodat2,
            SYS_chown, SYS_fchown, SYS_lchown, SYS_fchownat, SYS_umask,
            SYS_utime, SYS_utimes, SYS_utimensat, SYS_futimesat, SYS_setxattr,
            SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr,
            SYS_fremovexattr,
        ],
    ),
    ("making named pipes; the second filter refuses devices", calls![SYS_mknod, SYS_mknodat]),
    (
        "memory",
        calls![
            SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise,
            SYS_msync, SYS_mincore, SYS_brk, SYS_mlock, SYS_mlock2,
            SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_pkey_mprotect,
            SYS_pkey_alloc, SYS_pkey_free, SYS_membarrier, SYS_get_mempolicy,
        ],
    ),
    (
        "processes and threads; the second filter refuses new namespaces",
        calls![
            SYS_clone, SYS_fork, SYS_vfork, SYS_execve, SYS_execveat,
            SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_set_tid_address,
            SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_arch_prctl,
            SYS_prctl, SYS_gettid, SYS_getpid, SYS_getppid, SYS_getpgrp,
            SYS_getpgid, SYS_setpgid, SYS_getsid, SYS_setsid, SYS_futex,
            SYS_futex_waitv, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_personality,
        ],
    ),
    (
        "signals; Landlock and the pid namespace keep them inside",
        calls![
            SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask,
            SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo,
            SYS_rt_tgsigqueueinfo, SYS_rt_sigsuspend, SYS_sigaltstack, SYS_signalfd,
            SYS_signalfd4, SYS_pause, SYS_restart_syscall, SYS_alarm,
        ],
    ),
    (
        "who am I; there is one user inside, and no capability to become another",
        calls![
            SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid,
            SYS_getresgid, SYS_getgroups, SYS_setuid, SYS_setgid, SYS_setreuid,
            SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
            SYS_setfsuid, SYS_setfsgid, SYS_capget, SYS_capset,
        ],
    ),
    (
        "time",
        calls![
            SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_gettimeofday,
            SYS_time, SYS_times, SYS_nanosleep, SYS_getitimer, SYS_setitimer,
            SYS_timer_create, SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun,
            SYS_timer_delete, SYS_timerfd_create, SYS_timerfd_settime,
            SYS_timerfd_gettime,
        ],
    ),
    (
        "waiting for events",
        calls![
            SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_epoll_create,
            SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_wait, SYS_epoll_pwait,
            SYS_epoll_pwait2, SYS_eventfd, SYS_eventfd2,
        ],
    ),
    (
        "sockets; the second filter says of which kinds, and there is no network but loopback",
        calls![
            SYS_socket, SYS_socketpair, SYS_bind, SYS_connect, SYS_listen,
            SYS_accept, SYS_accept4, SYS_getsockname, SYS_getpeername,
            SYS_setsockopt, SYS_getsockopt, SYS_shutdown, SYS_sendto,
            SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg,
        ],
    ),
    (
        "shared memory and semaphores of its own ipc namespace",
        calls![
            SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl, SYS_semget,
            SYS_semop, SYS_semtimedop, SYS_semctl,
        ],
    ),
    (
        "limits, scheduling and facts about the machine",
        calls![
            SYS_getrlimit, SYS_setrlimit, SYS_prlimit64, SYS_getrusage,
            SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity,
            SYS_sched_getparam, SYS_sched_setparam, SYS_sched_getscheduler,
            SYS_sched_setscheduler, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
            SYS_sched_getattr, SYS_sched_setattr, SYS_getpriority, SYS_setpriority,
            SYS_ioprio_get, SYS_ioprio_set, SYS_getcpu, SYS_sysinfo, SYS_uname,
            SYS_getrandom,
        ],
    ),
    (
        "confining itself further",
        calls![
            SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
        ],
    ),
];

/// The only socket families.
pub const SOCKET_FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// The same on the host's network, where the names of its abstract Unix sockets live too: whoever can open such a socket
/// there can speak to the host's own services. Pairs of them have no name, and stay.
const HOST_NETWORK_FAMILIES: [i32; 2] = [libc::AF_INET, libc::AF_INET6];

/// The same where a network stands around that no script is to reach: no socket but those between processes.
const FAMILIES_WITHOUT_NETWORK: [i32; 1] = [libc::AF_UNIX];

/// The only protocols: the usual one of the family, by default or by name. Others are rarely used code of the
/// kernel, some of which it loads at the mere asking.
const SOCKET_PROTOCOLS: [i32; 4] = [0, libc::AF_UNIX, libc::IPPROTO_TCP, libc::IPPROTO_UDP];

/// The old way to a packet socket, whatever the family; libc calls its own name for it deprecated.
const SOCK_PACKET: i32 = 10;

/// Kinds of sockets that are not streams, datagrams or sequences of packets.
const REFUSED_SOCKETS: [i32; 4] = [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_DCCP, SOCK_PACKET];

/// Flags of `clone` that would make a namespace. `clone3`, whose flags a filter cannot see, is not listed at
/// all, and C libraries fall back to `clone`.
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

/// Ways to push characters into a terminal that somebody else reads.
const TERMINAL_INJECTION: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// `prctl` operations that no script needs: those of checkpoint tools, filters, and keeping half of a core idle.
const REFUSED_PRCTL: [i32; 3] = [libc::PR_SET_MM, libc::PR_SET_SECCOMP, libc::PR_SCHED_CORE];

/// Ways to hear of what others do with a file that all sandboxes share, and to keep them from it.
const FILE_WATCHING: [i32; 2] = [libc::F_NOTIFY, libc::F_SETLEASE];

/// The process that is not the script's to signal or to limit: the guest.
const GUEST_PID: u64 = 1;

/// The limit that a script may not even lower. A core limit of 1 means neither a file nor the host's own program that
/// takes core dumps, run by the host's root outside of every limit; 0 would start it again. Programs that set it to
/// 0 want no core dump and get none, so they are told that it worked.
const KEPT_LIMIT: u64 = libc::RLIMIT_CORE as u64;

/// Socket options that load a program into the kernel. With `seccomp`, which is not listed either, they are how a
/// script could make thousands of them, and a kernel that has to free more than a thousand at once may never come
/// back: Linux 6.18 waits for itself and then runs no new filter until it is restarted.
const SOCKET_PROGRAMS: [i32; 4] =
    [libc::SO_ATTACH_FILTER, libc::SO_ATTACH_BPF, libc::SO_ATTACH_REUSEPORT_CBPF, libc::SO_ATTACH_REUSEPORT_EBPF];

/// One test of one argument, of which only the lower half counts, as it does for the kernel.
#[derive(Debug, Clone, Copy)]
enum Test {
    /// These bits have this value.
    Bits { argument: u8, mask: u32, value: u32 },
    /// It is none of these.
    NoneOf { argument: u8, values: &'static [i32] },
}

/// The listed calls that are refused when one of their rules holds; a rule holds when all its tests do.
fn refusals(families: &'static [i32]) -> BTreeMap<i64, Vec<Vec<Test>>> {
    let bits = |argument, mask: u32, value: u32| Test::Bits { argument, mask, value };
    let is = |argument, value: u64| bits(argument, u32::MAX, value as u32);
    let none_of = |argument, values| vec![Test::NoneOf { argument, values }];
    // The kind shares its argument with two flags.
    let kind_of_socket = |kind: &i32| vec![bits(1, 0xf, *kind as u32)];
    let other_sockets = |families| -> Vec<_> {
        let others = [none_of(0, families), none_of(2, &SOCKET_PROTOCOLS)];
        others.into_iter().chain(REFUSED_SOCKETS.iter().map(kind_of_socket)).collect()
    };
    let devices =
        |argument| [libc::S_IFCHR, libc::S_IFBLK].map(|kind| vec![bits(argument, libc::S_IFMT, kind)]).to_vec();
    let socket_option = |name: &i32| vec![is(1, libc::SOL_SOCKET as u64), is(2, *name as u64)];
    BTreeMap::from([
        (libc::SYS_clone, NAMESPACE_FLAGS.iter().map(|flag| vec![bits(0, *flag as u32, *flag as u32)]).collect()),
        (libc::SYS_socket, other_sockets(families)),
        (libc::SYS_socketpair, other_sockets(&SOCKET_FAMILIES)),
        (libc::SYS_setsockopt, SOCKET_PROGRAMS.iter().map(socket_option).collect()),
        (libc::SYS_fcntl, FILE_WATCHING.iter().map(|command| vec![is(1, *command as u64)]).collect()),
        (libc::SYS_mknod, devices(1)),
        (libc::SYS_mknodat, devices(2)),
        (libc::SYS_ioctl, TERMINAL_INJECTION.iter().map(|request| vec![is(1, *request)]).collect()),
        (libc::SYS_prctl, REFUSED_PRCTL.iter().map(|operation| vec![is(0, *operation as u64)]).collect()),
        // Reading the personality is fine; any other would loosen the address layout.
        (libc::SYS_personality, vec![none_of(0, &[-1, 0])]),
    ])
}

/// Calls whose first argument may not be the guest: Linux leaves the first process of a namespace alone anyway, but
/// gVisor does not. Not in the profile, which an engine could no longer make a filter of.
const NOT_ON_THE_GUEST: [i64; 7] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_prlimit64,
];

/// All programs, in the order of installation: the list comes last, because it does not have `seccomp` on it.
pub fn programs(network: Network) -> Vec<Vec<u8>> {
    static PROGRAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| made(&SOCKET_FAMILIES));
    match network {
        Network::Own => PROGRAMS.clone(),
        Network::Host => made(&HOST_NETWORK_FAMILIES),
    }
}

/// The same for where a network stands around that we did not make and cannot take away: no socket leads to it.
pub fn programs_without_network() -> Vec<Vec<u8>> {
    static PROGRAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| made(&FAMILIES_WITHOUT_NETWORK));
    PROGRAMS.clone()
}

/// The program that makes calls for other machines wait for the guest's eye. It refuses nothing.
pub fn witness() -> Vec<u8> {
    program::bytes(&program::watched_calls())
}

fn made(families: &'static [i32]) -> Vec<Vec<u8>> {
    let programs = [program::kept_limit(), program::refused_arguments(families), program::allowed_numbers()];
    programs.map(|program| program::bytes(&program)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_listed_twice() {
        let mut calls: Vec<i64> = ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.number)).collect();
        calls.sort_unstable();
        let listed = calls.len();
        calls.dedup();
        assert_eq!(calls.len(), listed);
    }

    #[test]
    fn what_escapes_are_made_of_is_not_listed() {
        let refused = [
            libc::SYS_clone3,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_fanotify_init,
            libc::SYS_open_by_handle_at,
            libc::SYS_name_to_handle_at,
            libc::SYS_kexec_load,
            libc::SYS_init_module,
            libc::SYS_fsopen,
            libc::SYS_move_mount,
            libc::SYS_open_tree,
            libc::SYS_mount_setattr,
            libc::SYS_swapon,
            libc::SYS_reboot,
            libc::SYS_settimeofday,
            libc::SYS_iopl,
            libc::SYS_ioperm,
            libc::SYS_acct,
            libc::SYS_seccomp,
        ];
        for call in refused {
            assert!(!ALLOWED.iter().any(|(_, calls)| calls.iter().any(|c| c.number == call)), "{call} is listed");
        }
    }
}
