//! A child of the launcher that becomes a sandbox: it executes the steps that are the same for all
//! sandboxes, waits for a launch request, applies the limits of that request, and executes the
//! guest.

use super::cgroup::SandboxCgroup;
use super::{confine, identity, root, sys};
use crate::shared_inodes::{self, LockOwner};
use guest::jail::{
    CHANNEL_FD, LOCKS_FD, NOTIFY_FD, OOM_SCORE_FD, PRIVATE_INODES, SandboxLimits, SandboxNetwork,
    SandboxPlan, ToLauncher,
};
use guest::protocol::FromGuest;
use guest::{channel, frame};
use rustix::process::Signal;
use std::convert::Infallible;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A setup step that failed.
struct StepFailure {
    step: &'static str,
    error: io::Error,
}

/// The state while waiting for a launch request.
struct PreparedChild {
    root: root::BuiltRoot,
    /// The child's own `oom_score_adj`.
    oom_score: OwnedFd,
}

/// Files opened as the service's user.
struct OpenedFiles {
    sources: root::HostSources,
    oom_score: OwnedFd,
}

/// Prepares a sandbox, waits on `channel` for a launch request and executes the guest. Never
/// returns.
pub(super) fn run_child(
    group: &SandboxCgroup,
    channel: OwnedFd,
    program: BorrowedFd<'_>,
    (plan, network): (&SandboxPlan, SandboxNetwork),
) -> ! {
    let opened = open(group, plan, network);
    // The launcher maps the user meanwhile, and notifies this child.
    let Ok(Some(_)) = channel::receive(&channel) else { exit_quietly() };
    let prepared = opened.and_then(|opened| prepare(opened, plan, network));
    let Some((limits, stream)) = wait_for_launch(channel) else { exit_quietly() };
    // A failed preparation is reported only now: before, there was no stream to report it on.
    let Err(failure) =
        prepared.and_then(|prepared| exec_guest(prepared, plan, &limits, &stream, program));
    report_failure(&stream, &failure);
    std::process::exit(1);
}

/// Exits a child whose launcher has exited.
fn exit_quietly() -> ! {
    std::process::exit(0)
}

/// The steps that need the service's user. The order is required.
fn open(
    group: &SandboxCgroup,
    plan: &SandboxPlan,
    network: SandboxNetwork,
) -> Result<OpenedFiles, StepFailure> {
    at_step("enter cgroup", group.enter())?;
    at_step("capabilities", identity::drop_bounding_set())?;
    if network == SandboxNetwork::Own {
        // Needs the host's /proc, which is not in the new root.
        shrink_receive_buffers();
    }
    // After entering the cgroup, which becomes the root of the new cgroup namespace.
    at_step("cgroup namespace", sys::unshare_cgroup_namespace())?;
    // The service's user may have access to directories that the sandbox's user does not have.
    let sources = at_step("open host paths", root::open_sources(plan))?;
    // Before the change of user, which makes the file root's.
    let oom_score = at_step("oom score", open_oom_score())?;
    Ok(OpenedFiles { sources, oom_score })
}

/// The steps that need the sandbox's user and do not depend on the limits of a run. The order is
/// required.
fn prepare(
    OpenedFiles { sources, oom_score }: OpenedFiles,
    plan: &SandboxPlan,
    network: SandboxNetwork,
) -> Result<PreparedChild, StepFailure> {
    // Before the first file is created: its owner must be mapped in the user namespace.
    at_step("user and group", identity::switch_to_inside_user())?;
    let root = at_step("new root", root::build_and_enter(plan, sources))?;
    at_step(
        "host name",
        rustix::system::sethostname(plan.hostname.as_bytes()).map_err(io::Error::from),
    )?;
    if network == SandboxNetwork::Own {
        at_step("loopback", sys::bring_up_loopback())?;
    }
    // When the launcher dies, the kernel kills the sandbox. After the change of user, which clears
    // this setting.
    at_step(
        "death signal",
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(io::Error::from),
    )?;
    at_step("session", rustix::process::setsid().map(drop).map_err(io::Error::from))?;
    // Landlock and seccomp require this from a process without capabilities.
    at_step("no new privileges", rustix::thread::set_no_new_privs(true).map_err(io::Error::from))?;
    Ok(PreparedChild { root, oom_score })
}

/// Reduces the receive buffers of connections that are not accepted, whose memory no cgroup
/// charges. Once a process reads from a connection, its buffer grows as usual. Skipped where
/// `/proc/sys` is read-only.
fn shrink_receive_buffers() {
    const TCP_RMEM: &str = "/proc/sys/net/ipv4/tcp_rmem";
    let max = std::fs::read_to_string(TCP_RMEM)
        .ok()
        .and_then(|sizes| sizes.split_whitespace().nth(2)?.parse::<u64>().ok());
    if let Some(max) = max {
        let _ = std::fs::write(TCP_RMEM, format!("4096 16384 {}", max.max(16384)));
    }
}

/// Waits for the launch request; `None` when the launcher has exited.
fn wait_for_launch(channel: OwnedFd) -> Option<(SandboxLimits, OwnedFd)> {
    let packet = channel::receive(&channel).ok()??;
    match postcard::from_bytes(&packet.bytes) {
        Ok(ToLauncher::Launch { limits, .. }) => Some((limits, packet.fd?)),
        _ => None,
    }
}

/// The remaining steps, which depend on the limits of the run. The order is required: each step
/// forbids calls that the steps before it need.
fn exec_guest(
    PreparedChild { root, oom_score }: PreparedChild,
    plan: &SandboxPlan,
    limits: &SandboxLimits,
    stream: &OwnedFd,
    program: BorrowedFd<'_>,
) -> Result<Infallible, StepFailure> {
    // Before Landlock, which forbids all mount operations.
    at_step("disk limit", root::resize_scratch(&root.scratch, &limits.scratch))?;
    at_step("resource limits", confine::set_rlimits(&limits.rlimits))?;
    at_step("descriptors", arrange_descriptors(stream))?;
    at_step("oom score", sys::duplicate_to(oom_score.as_fd(), OOM_SCORE_FD))?;
    at_step("landlock", confine::restrict_paths(&plan.landlock))?;
    at_step("capabilities", identity::drop_capabilities())?;
    // Before the filters, which reject these lock calls.
    let inode_locks =
        plan.private_inodes.then(|| shared_inodes::lock_all(LockOwner::OpenFile)).flatten();
    // Before the main filter, which forbids installing another.
    at_step("notify filter", install_notify_filter(plan, root.locks.as_ref()))?;
    // Last, because it forbids most of the calls above.
    at_step("seccomp", confine::filter_system_calls(&plan.seccomp))?;
    let private = root.private && inode_locks.is_some();
    at_step("start guest", Err(execute_guest(plan, program, private)))
}

/// Installs the notify filter and passes its listener and the list of locks to the guest on fixed
/// descriptors. A guest that lacks either of them cannot count locks, so they are forbidden then.
fn install_notify_filter(plan: &SandboxPlan, locks: Option<&OwnedFd>) -> io::Result<()> {
    let listener = confine::notify_filter(&plan.notify_filter);
    if let Some(listener) = &listener {
        sys::duplicate_to(listener.as_fd(), NOTIFY_FD)?;
    }
    match (listener, locks) {
        (Some(_), Some(locks)) => sys::duplicate_to(locks.as_fd(), LOCKS_FD),
        _ => confine::filter_system_calls(&plan.no_lock_filter),
    }
}

fn open_oom_score() -> io::Result<OwnedFd> {
    Ok(std::fs::OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj")?.into())
}

fn at_step<T>(step: &'static str, result: io::Result<T>) -> Result<T, StepFailure> {
    result.map_err(|error| StepFailure { step, error })
}

/// Passes the stream on its fixed descriptor and /dev/null on 0 to 2, and closes all other
/// descriptors on exec.
fn arrange_descriptors(stream: &OwnedFd) -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    // First: the stream may itself be one of the descriptors that are replaced.
    let stream = rustix::io::fcntl_dupfd_cloexec(stream, CHANNEL_FD + 1)?;
    for target in 0..CHANNEL_FD {
        sys::duplicate_to(null.as_fd(), target)?;
    }
    sys::duplicate_to(stream.as_fd(), CHANNEL_FD)?;
    sys::close_on_exec_from(CHANNEL_FD as u32 + 1)
}

fn execute_guest(plan: &SandboxPlan, program: BorrowedFd<'_>, private_inodes: bool) -> io::Error {
    let mut arguments = vec![c"skillbox-guest", c"guest"];
    if private_inodes {
        arguments.push(PRIVATE_INODES);
    }
    match CString::new(format!("PATH={}", plan.path)) {
        Ok(path) => sys::execute(program, &arguments, &[&path]),
        Err(error) => error.into(),
    }
}

/// Reports the failure on the stream, in place of the guest.
fn report_failure(stream: &OwnedFd, failure: &StepFailure) {
    let errno = failure.error.raw_os_error().unwrap_or(0);
    let mut bytes = Vec::new();
    let message = FromGuest::Failed { step: failure.step, errno };
    if frame::encode(&message, frame::MAX_FROM_GUEST, &mut bytes).is_ok() {
        // If this fails as well, the host sees only the end of the stream.
        let _ = rustix::net::send(stream, &bytes, rustix::net::SendFlags::NOSIGNAL);
    }
}
