//! The system calls a sandbox may make, as data.
//!
//! Three filters, of which the kernel takes the stricter answer. The first knows calls by number only: what is
//! not on the list does not exist (`ENOSYS`), which programs take as an old kernel and work around; because it
//! looks at no argument, the kernel answers it from a bitmap. The second refuses (`EPERM`) listed calls with
//! arguments that no script needs. The third says yes to one call and does nothing. None kills: a crash that looks
//! random helps nobody.

mod program;

use std::sync::LazyLock;

/// Calls that exist inside, by what they are for.
#[rustfmt::skip] // One call a line would make three hundred lines of it.
pub const ALLOWED: &[(&str, &[i64])] = &[
    (
        "reading and writing what is open; `sync` and `syncfs` would make the host write all of its own",
        &[
            libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64,
            libc::SYS_pwrite64, libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2,
            libc::SYS_lseek, libc::SYS_sendfile, libc::SYS_splice, libc::SYS_tee, libc::SYS_vmsplice,
            libc::SYS_copy_file_range, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range,
            libc::SYS_fadvise64, libc::SYS_readahead, libc::SYS_ioctl,
        ],
    ),
    (
        "opening, closing and duplicating descriptors",
        &[
            libc::SYS_open, libc::SYS_openat, libc::SYS_openat2, libc::SYS_creat, libc::SYS_close,
            libc::SYS_close_range, libc::SYS_dup, libc::SYS_dup2, libc::SYS_dup3, libc::SYS_fcntl,
            libc::SYS_flock, libc::SYS_pipe, libc::SYS_pipe2, libc::SYS_memfd_create,
        ],
    ),
    (
        "looking at files; not `inotify`, which sees who else opens the interpreters' files, and counts as root's own",
        &[
            libc::SYS_stat, libc::SYS_fstat, libc::SYS_lstat, libc::SYS_newfstatat, libc::SYS_statx,
            libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_access, libc::SYS_faccessat, libc::SYS_faccessat2,
            libc::SYS_readlink, libc::SYS_readlinkat, libc::SYS_getdents, libc::SYS_getdents64,
            libc::SYS_getcwd, libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_getxattr, libc::SYS_lgetxattr,
            libc::SYS_fgetxattr, libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_flistxattr,
        ],
    ),
    (
        "changing files; mounts and Landlock say which",
        &[
            libc::SYS_mkdir, libc::SYS_mkdirat, libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_unlinkat,
            libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_link, libc::SYS_linkat,
            libc::SYS_symlink, libc::SYS_symlinkat, libc::SYS_truncate, libc::SYS_ftruncate,
            libc::SYS_fallocate, libc::SYS_chmod, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchmodat2,
            libc::SYS_chown, libc::SYS_fchown, libc::SYS_lchown, libc::SYS_fchownat, libc::SYS_umask,
            libc::SYS_utime, libc::SYS_utimes, libc::SYS_utimensat, libc::SYS_futimesat, libc::SYS_setxattr,
            libc::SYS_lsetxattr, libc::SYS_fsetxattr, libc::SYS_removexattr, libc::SYS_lremovexattr,
            libc::SYS_fremovexattr,
        ],
    ),
    ("making named pipes; the second filter refuses devices", &[libc::SYS_mknod, libc::SYS_mknodat]),
    (
        "memory",
        &[
            libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise,
            libc::SYS_msync, libc::SYS_mincore, libc::SYS_brk, libc::SYS_mlock, libc::SYS_mlock2,
            libc::SYS_munlock, libc::SYS_mlockall, libc::SYS_munlockall, libc::SYS_pkey_mprotect,
            libc::SYS_pkey_alloc, libc::SYS_pkey_free, libc::SYS_membarrier, libc::SYS_get_mempolicy,
        ],
    ),
    (
        "processes and threads; the second filter refuses new namespaces",
        &[
            libc::SYS_clone, libc::SYS_fork, libc::SYS_vfork, libc::SYS_execve, libc::SYS_execveat,
            libc::SYS_exit, libc::SYS_exit_group, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_set_tid_address,
            libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq, libc::SYS_arch_prctl,
            libc::SYS_prctl, libc::SYS_gettid, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getpgrp,
            libc::SYS_getpgid, libc::SYS_setpgid, libc::SYS_getsid, libc::SYS_setsid, libc::SYS_futex,
            libc::SYS_futex_waitv, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal, libc::SYS_personality,
        ],
    ),
    (
        "signals; Landlock and the pid namespace keep them inside",
        &[
            libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending, libc::SYS_rt_sigtimedwait, libc::SYS_rt_sigqueueinfo,
            libc::SYS_rt_tgsigqueueinfo, libc::SYS_rt_sigsuspend, libc::SYS_sigaltstack, libc::SYS_signalfd,
            libc::SYS_signalfd4, libc::SYS_pause, libc::SYS_restart_syscall, libc::SYS_alarm,
        ],
    ),
    (
        "who am I; there is one user inside, and no capability to become another",
        &[
            libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getresuid,
            libc::SYS_getresgid, libc::SYS_getgroups, libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid,
            libc::SYS_setregid, libc::SYS_setresuid, libc::SYS_setresgid, libc::SYS_setgroups,
            libc::SYS_setfsuid, libc::SYS_setfsgid, libc::SYS_capget, libc::SYS_capset,
        ],
    ),
    (
        "time",
        &[
            libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_gettimeofday,
            libc::SYS_time, libc::SYS_times, libc::SYS_nanosleep, libc::SYS_getitimer, libc::SYS_setitimer,
            libc::SYS_timer_create, libc::SYS_timer_settime, libc::SYS_timer_gettime, libc::SYS_timer_getoverrun,
            libc::SYS_timer_delete, libc::SYS_timerfd_create, libc::SYS_timerfd_settime,
            libc::SYS_timerfd_gettime,
        ],
    ),
    (
        "waiting for events",
        &[
            libc::SYS_poll, libc::SYS_ppoll, libc::SYS_select, libc::SYS_pselect6, libc::SYS_epoll_create,
            libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_wait, libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2, libc::SYS_eventfd, libc::SYS_eventfd2,
        ],
    ),
    (
        "sockets; the second filter says of which kinds, and there is no network but loopback",
        &[
            libc::SYS_socket, libc::SYS_socketpair, libc::SYS_bind, libc::SYS_connect, libc::SYS_listen,
            libc::SYS_accept, libc::SYS_accept4, libc::SYS_getsockname, libc::SYS_getpeername,
            libc::SYS_setsockopt, libc::SYS_getsockopt, libc::SYS_shutdown, libc::SYS_sendto,
            libc::SYS_recvfrom, libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_recvmmsg,
        ],
    ),
    (
        "shared memory and semaphores of its own ipc namespace",
        &[
            libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmdt, libc::SYS_shmctl, libc::SYS_semget,
            libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_semctl,
        ],
    ),
    (
        "limits, scheduling and facts about the machine",
        &[
            libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_prlimit64, libc::SYS_getrusage,
            libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity,
            libc::SYS_sched_getparam, libc::SYS_sched_setparam, libc::SYS_sched_getscheduler,
            libc::SYS_sched_setscheduler, libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min,
            libc::SYS_sched_getattr, libc::SYS_sched_setattr, libc::SYS_getpriority, libc::SYS_setpriority,
            libc::SYS_ioprio_get, libc::SYS_ioprio_set, libc::SYS_getcpu, libc::SYS_sysinfo, libc::SYS_uname,
            libc::SYS_getrandom,
        ],
    ),
    (
        "confining itself further",
        &[
            libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self,
        ],
    ),
];

/// The only socket families.
pub const SOCKET_FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

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

/// The process whose limits are not the script's to set: the guest.
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

/// All programs, in the order of installation: the list comes last, because it does not have `seccomp` on it.
pub fn programs() -> Vec<Vec<u8>> {
    static PROGRAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let programs = [program::kept_limit(), program::refused_arguments(), program::allowed_numbers()];
        programs.map(|program| program::bytes(&program)).to_vec()
    });
    PROGRAMS.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_listed_twice() {
        let mut calls: Vec<i64> = ALLOWED.iter().flat_map(|(_, calls)| calls.iter().copied()).collect();
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
            assert!(!ALLOWED.iter().any(|(_, calls)| calls.contains(&call)), "{call} is listed");
        }
    }
}
