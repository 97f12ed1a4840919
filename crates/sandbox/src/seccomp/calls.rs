//! The allowlist of system calls, grouped by purpose.
//!
//! Each of them is used by a guest or by a script of our tests: `tests/fixtures/system-calls.txt`
//! lists by which, and `scripts/trace-system-calls.sh` regenerates that list.

/// A system call: its name, and its number on this architecture.
pub(super) struct SystemCall {
    /// The name of libc's constant, such as `SYS_read`.
    constant: &'static str,
    pub number: i64,
}

impl SystemCall {
    pub(super) fn name(&self) -> &'static str {
        self.constant.trim_start_matches("SYS_")
    }
}

macro_rules! calls {
    ($($call:ident),* $(,)?) => { &[$(SystemCall { constant: stringify!($call), number: libc::$call }),*] };
}

/// The maximum length of the allowlist: every call is kernel code that a script can reach.
#[cfg(test)]
const MAX_CALLS: usize = 220;

/// The allowed calls, with the purpose of each group and the reason for calls that are left out.
#[rustfmt::skip] // With one call per line it would have two hundred lines.
pub(super) const ALLOWED: &[(&str, &[SystemCall])] = &[
    (
        "reading and writing open files; not `sync` and `syncfs`, which would make the host write back all of its files, nor \
         `preadv2` and `readahead`, which reveal and change which parts of a shared file are in the page cache",
        calls![
            SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64,
            SYS_preadv, SYS_pwritev, SYS_lseek, SYS_sendfile, SYS_splice,
            SYS_copy_file_range, SYS_fsync, SYS_fdatasync, SYS_fadvise64, SYS_ioctl,
        ],
    ),
    (
        "opening, closing and duplicating descriptors",
        calls![
            SYS_open, SYS_openat, SYS_close, SYS_close_range, SYS_dup, SYS_dup2,
            SYS_dup3, SYS_fcntl, SYS_flock, SYS_pipe, SYS_pipe2, SYS_memfd_create,
        ],
    ),
    (
        "inspecting files; not `inotify`, which reveals that other runs open the interpreters' files, and is charged to root",
        calls![
            SYS_stat, SYS_fstat, SYS_lstat, SYS_newfstatat, SYS_statx,
            SYS_statfs, SYS_fstatfs, SYS_access, SYS_faccessat, SYS_faccessat2,
            SYS_readlink, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_chdir,
            SYS_fchdir, SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr,
            SYS_llistxattr, SYS_flistxattr,
        ],
    ),
    (
        "changing files; mounts and Landlock restrict which",
        calls![
            SYS_mkdir, SYS_mkdirat, SYS_rmdir, SYS_unlink, SYS_unlinkat, SYS_rename,
            SYS_renameat, SYS_renameat2, SYS_link, SYS_linkat, SYS_symlink,
            SYS_symlinkat, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_chmod,
            SYS_fchmod, SYS_fchmodat, SYS_chown, SYS_fchown, SYS_lchown,
            SYS_fchownat, SYS_umask, SYS_utimensat, SYS_setxattr, SYS_lsetxattr,
            SYS_fsetxattr, SYS_removexattr,
        ],
    ),
    ("creating named pipes; argument rules reject devices", calls![SYS_mknod, SYS_mknodat]),
    (
        "memory; not `mincore`, which reveals which parts of a shared file are in the page cache",
        calls![
            SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise,
            SYS_msync, SYS_brk, SYS_mlock, SYS_munlock, SYS_membarrier,
        ],
    ),
    (
        "processes and threads; argument rules reject new namespaces",
        calls![
            SYS_clone, SYS_fork, SYS_vfork, SYS_execve, SYS_execveat,
            SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_set_tid_address,
            SYS_set_robust_list, SYS_rseq, SYS_arch_prctl, SYS_prctl, SYS_gettid,
            SYS_getpid, SYS_getppid, SYS_getpgrp, SYS_getpgid, SYS_setpgid,
            SYS_getsid, SYS_setsid, SYS_futex, SYS_pidfd_open, SYS_pidfd_send_signal,
        ],
    ),
    (
        "signals; Landlock and the pid namespace confine them to the sandbox",
        calls![
            SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask,
            SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo,
            SYS_rt_sigsuspend, SYS_sigaltstack, SYS_signalfd4, SYS_pause,
            SYS_restart_syscall, SYS_alarm,
        ],
    ),
    (
        "user and group ids; there is one user inside, and no capability to change to another",
        calls![
            SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid,
            SYS_getresgid, SYS_getgroups, SYS_setuid, SYS_setgid, SYS_setresuid,
            SYS_setresgid, SYS_capget,
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
            SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_epoll_create1,
            SYS_epoll_ctl, SYS_epoll_wait, SYS_epoll_pwait, SYS_eventfd2,
        ],
    ),
    (
        "sockets; argument rules restrict their types, and there is no network except loopback",
        calls![
            SYS_socket, SYS_socketpair, SYS_bind, SYS_connect, SYS_listen,
            SYS_accept, SYS_accept4, SYS_getsockname, SYS_getpeername,
            SYS_setsockopt, SYS_getsockopt, SYS_shutdown, SYS_sendto,
            SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg,
        ],
    ),
    (
        "limits, scheduling and system information",
        calls![
            SYS_getrlimit, SYS_setrlimit, SYS_prlimit64, SYS_getrusage,
            SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity,
            SYS_sched_getparam, SYS_sched_getscheduler, SYS_sched_setscheduler,
            SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_getpriority,
            SYS_setpriority, SYS_getcpu, SYS_sysinfo, SYS_uname, SYS_getrandom,
        ],
    ),
    ("querying the Landlock version", calls![SYS_landlock_create_ruleset]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_listed_twice() {
        let mut calls: Vec<i64> =
            ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.number)).collect();
        calls.sort_unstable();
        let listed = calls.len();
        calls.dedup();
        assert_eq!(calls.len(), listed);
        assert!(listed <= MAX_CALLS, "{listed} calls");
    }

    #[test]
    fn every_listed_call_is_used_by_a_script_or_the_guest() {
        let used = include_str!("../../tests/fixtures/system-calls.txt");
        let used: Vec<&str> =
            used.lines().filter_map(|line| line.split_once(' ')).map(|(call, _)| call).collect();
        let listed: Vec<&str> =
            ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(SystemCall::name)).collect();
        let unused: Vec<_> = listed.iter().filter(|call| !used.contains(call)).collect();
        assert!(unused.is_empty(), "no test uses {unused:?}; see scripts/trace-system-calls.sh");
        // And the recorded list does not contain calls that are not allowed.
        let refused: Vec<_> =
            used.iter().filter(|call| **call != "#" && !listed.contains(call)).collect();
        assert!(refused.is_empty(), "{refused:?} are not allowed");
    }

    #[test]
    fn dangerous_calls_are_not_listed() {
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
            assert!(
                !ALLOWED.iter().any(|(_, calls)| calls.iter().any(|c| c.number == call)),
                "{call} is listed"
            );
        }
    }
}
