//! PID 1 inside a sandbox: measures the confinement, receives one job, runs it, kills and reaps all
//! processes, and sends the results.
//!
//! It is already confined when it starts, or confines itself first, and cannot gain privileges. It
//! is single-threaded, allocates nothing after the script has started, and exits as soon as its
//! host disconnects, which ends the sandbox. It decides nothing: every limit comes from the host,
//! which checks the results again.

mod cgroup;
mod channel;
mod collect;
mod directory_listing;
mod disk_usage;
mod entry_type;
mod failure;
mod kernel;
mod measure;
mod oom;
mod process;
mod process_limit;
mod receive_job;
mod record_locks;
mod shebang;
mod supervise;
mod syscall_listener;
mod tcp_sockets;

use crate::launcher::confine;
use crate::shared_inodes::{self, LockOwner};
use cgroup::Cgroup;
use channel::Channel;
use disk_usage::DiskUsage;
use failure::SetupFailure;
use guest::jail::{CHANNEL_FD, Counters, PRIVATE_INODES, ScratchLimits};
use guest::protocol::{Confinement, ExitReport, ExitStatus, FromGuest, ToGuest};
use process_limit::ProcessLimit;
use supervise::LogForwarder;
use syscall_listener::SyscallListener;

/// Runs the one job of a native sandbox; the stream to the host is on descriptor 3.
pub(crate) fn main() -> ! {
    let host = Channel::on_socket();
    kernel::close_on_exec_from(CHANNEL_FD + 1);
    let private_inodes = std::env::args_os()
        .any(|argument| argument.as_encoded_bytes() == PRIVATE_INODES.to_bytes());
    let syscalls = SyscallListener::inherited();
    let prepared = prepare(oom::OomScore::inherited());
    run(host, prepared.map(|oom| Prepared { oom, enforced_here: None, syscalls, private_inodes }))
}

/// The same in a container: the host is on the standard streams, and the guest confines itself as
/// the host's first message demands.
pub(crate) fn main_in_container() -> ! {
    let mut host = Channel::on_standard_streams();
    host.wait_for_first_message();
    let confinement = match host.receive() {
        ToGuest::Confine(confinement) => confinement,
        ToGuest::File { .. }
        | ToGuest::Chunk(_)
        | ToGuest::Link { .. }
        | ToGuest::Stdin { .. }
        | ToGuest::Run(_)
        | ToGuest::Stop => channel::exit_guest(),
    };
    // The score file must be opened first: `prepare` makes it root's, and Landlock denies writing
    // anything in /proc.
    let prepared =
        prepare(oom::OomScore::open()).and_then(|oom| confine_in_container(&confinement, oom));
    run(host, prepared)
}

/// Applies the confinement. The order matters: each step forbids calls that the steps before it
/// need.
fn confine_in_container(
    confinement: &Confinement,
    oom: oom::OomScore,
) -> Result<Prepared, SetupFailure> {
    confine::lower_rlimits(&confinement.rlimits);
    confine::restrict_paths(&confinement.landlock).map_err(SetupFailure::io("landlock"))?;
    // Before the notify filter, which would suspend these lock calls.
    let inode_locks =
        confinement.private_inodes.then(|| shared_inodes::lock_all(LockOwner::Process)).flatten();
    kernel::close_on_exec_from(CHANNEL_FD);
    let private_inodes =
        measure::is_gvisor() || (inode_locks.is_some() && measure::has_overlay_root());
    // Before the main filter, which forbids installing another.
    let syscalls = install_notify_filter(confinement)?;
    // Last, because it forbids most of the calls above.
    confine::filter_system_calls(&confinement.seccomp).map_err(SetupFailure::io("seccomp"))?;
    let enforced_here = Some(GuestEnforcedLimits {
        scratch: confinement.scratch,
        processes: confinement.processes,
    });
    // The locks must be held for as long as this process lives.
    std::mem::forget(inode_locks);
    Ok(Prepared { oom, enforced_here, syscalls, private_inodes })
}

/// Installs the notify filter. Where record locks cannot be counted they are forbidden, except
/// under gVisor, whose locks are memory of its own kernel and so within the container's limit.
fn install_notify_filter(
    confinement: &Confinement,
) -> Result<Option<SyscallListener>, SetupFailure> {
    let locks = record_locks::RecordLockCounter::open();
    let listener = confine::notify_filter(&confinement.notify_filter);
    if (locks.is_none() || listener.is_none()) && !measure::is_gvisor() {
        confine::filter_system_calls(&confinement.no_lock_filter)
            .map_err(SetupFailure::io("seccomp"))?;
    }
    Ok(listener.map(|listener| SyscallListener::new(listener, locks)))
}

/// The state before the first message.
struct Prepared {
    oom: oom::OomScore,
    enforced_here: Option<GuestEnforcedLimits>,
    syscalls: Option<SyscallListener>,
    private_inodes: bool,
}

/// Limits that nothing outside this container enforces, so that the guest must.
#[derive(Clone, Copy)]
struct GuestEnforcedLimits {
    scratch: ScratchLimits,
    processes: u32,
}

fn run(mut host: Channel, prepared: Result<Prepared, SetupFailure>) -> ! {
    let served = prepared.and_then(|prepared| serve(&mut host, prepared));
    if let Err(SetupFailure { step, errno }) = served {
        host.send(&FromGuest::Failed { step, errno: errno.raw_os_error() });
        std::process::exit(1);
    }
    // The host has received everything and ends the sandbox by disconnecting.
    host.wait_for_disconnect();
}

/// Hides this process from scripts, which run as the same user, and creates the directories that
/// scripts rely on.
fn prepare(oom: oom::OomScore) -> Result<oom::OomScore, SetupFailure> {
    kernel::hide_from_same_user().map_err(SetupFailure::at("hide"))?;
    kernel::interrupt_poll_on_child_exit();
    receive_job::make_directories()?;
    Ok(oom)
}

fn serve(host: &mut Channel, prepared: Prepared) -> Result<(), SetupFailure> {
    let Prepared { oom, enforced_here, mut syscalls, private_inodes } = prepared;
    let cgroup = Cgroup::find();
    let measurements = measure::measure(cgroup, syscalls.is_some(), private_inodes)?;
    host.send(&FromGuest::Ready(measurements));

    let job = receive_job::receive_job(host)?;
    let mut disk_usage = DiskUsage::open(enforced_here.map(|limits| limits.scratch))?;
    let mut process_limit = ProcessLimit::new(enforced_here.map(|limits| limits.processes), cgroup);
    let started = process::start(&job.command, job.stdin.as_ref(), &oom);
    if started.is_ok() {
        host.send(&FromGuest::Started);
    }
    // Everything needed later is allocated now, while the interpreter starts: the script may use up
    // all memory.
    let mut listing = directory_listing::DirectoryListing::new();
    let mut logs = LogForwarder::new(job.limits.log_bytes);
    let mut exit = match started {
        Ok(script) => {
            let monitors = (&mut disk_usage, &mut process_limit, syscalls.as_mut());
            supervise::supervise(host, script, &mut logs, monitors)
        }
        Err(errno) => {
            // The failed child is the only other process.
            kernel::kill_all_and_reap(None);
            ExitReport {
                status: ExitStatus::NotStarted(errno.raw_os_error()),
                disk_full: disk_usage.was_full(),
                log_bytes_dropped: 0,
                counters: None,
            }
        }
    };
    exit.counters = counters(cgroup, enforced_here.is_some(), &process_limit, syscalls.as_ref());
    host.send(&FromGuest::Exit(exit));
    collect::collect(host, &job.limits, &mut listing, logs.buffer());
    host.send(&FromGuest::Done);
    Ok(())
}

/// The counters of this run, with the limits that the guest enforced itself reported as if the
/// kernel had.
fn counters(
    cgroup: Option<Cgroup>,
    in_container: bool,
    process_limit: &ProcessLimit,
    syscalls: Option<&SyscallListener>,
) -> Option<Counters> {
    let counters = match cgroup {
        Some(cgroup) => Some(cgroup.counters()),
        None if in_container => Some(kernel::children_rusage()),
        // The launcher of a native sandbox reads its counters.
        None => None,
    };
    let counters = counters.map(|counters| {
        let refused = counters.forks_refused.max(u64::from(process_limit.is_exceeded()));
        Counters { forks_refused: refused, ..counters }
    });
    if syscalls.is_some_and(SyscallListener::is_over_memory_limit) {
        // Locks and connections are kernel memory that no cgroup charges; the guest killed the
        // script for them in place of the out-of-memory killer.
        let counters = counters.unwrap_or_default();
        return Some(Counters { oom_kills: counters.oom_kills.max(1), ..counters });
    }
    counters
}
