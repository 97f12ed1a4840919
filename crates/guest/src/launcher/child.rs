//! A child on its way to being a sandbox: it does what is the same for all of them, is parked until
//! it is asked for, and then becomes the guest within the limits it is given.

use super::cgroup::Group;
use super::{confine, identity, root, sys};
use crate::shared_inodes::{self, Owner};
use guest::jail::{
    CHANNEL_FD, LOCKS_FD, OOM_SCORE_FD, PRIVATE_INODES, SandboxLimits, SandboxNetwork, SandboxPlan,
    ToLauncher, WITNESS_FD,
};
use guest::protocol::FromGuest;
use guest::{channel, frame};
use rustix::process::Signal;
use std::convert::Infallible;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A step that failed.
struct Failure {
    step: &'static str,
    error: io::Error,
}

/// What is ready when a sandbox is asked for.
struct Prepared {
    root: root::Root,
    /// The file by which a process tells the kernel how soon to kill it.
    oom_score: OwnedFd,
}

/// What was opened as the user who started the service.
struct Opened {
    sources: root::Sources,
    oom_score: OwnedFd,
}

/// Prepares a sandbox, waits on `channel` until it is asked for and becomes it. Never returns.
pub fn run(
    group: &Group,
    channel: OwnedFd,
    program: BorrowedFd<'_>,
    (plan, network): (&SandboxPlan, SandboxNetwork),
) -> ! {
    let opened = open(group, plan, network);
    // The launcher maps the user meanwhile, and says so.
    let Ok(Some(_)) = channel::receive(&channel) else { leave() };
    let prepared = opened.and_then(|opened| prepare(opened, plan, network));
    let Some((limits, stream)) = park(channel) else { leave() };
    // What failed is told only now, because only now there is somebody to tell.
    let Err(failure) =
        prepared.and_then(|prepared| become_guest(prepared, plan, &limits, &stream, program));
    report(&stream, &failure);
    std::process::exit(1);
}

/// Ends a child whose launcher has gone, and with it every reason to exist.
fn leave() -> ! {
    std::process::exit(0)
}

/// The steps of the user who started the service, in the only order that works.
fn open(group: &Group, plan: &SandboxPlan, network: SandboxNetwork) -> Result<Opened, Failure> {
    step("enter cgroup", group.enter())?;
    step("capabilities", identity::drop_bounding_set())?;
    if network == SandboxNetwork::Own {
        shrink_receive_buffers();
    }
    // After entering, so that the sandbox's own cgroup is what it sees as the root.
    step("cgroup namespace", sys::unshare_cgroup_namespace())?;
    // That user may look into directories that the sandbox's user may not.
    let sources = step("open host paths", root::open_sources(plan))?;
    // The change of user makes the file root's.
    let oom_score = step("oom score", open_oom_score())?;
    Ok(Opened { sources, oom_score })
}

/// The steps of the sandbox's user that are the same for every sandbox of this launcher.
fn prepare(
    Opened { sources, oom_score }: Opened,
    plan: &SandboxPlan,
    network: SandboxNetwork,
) -> Result<Prepared, Failure> {
    // Before the first file is made: it must belong to a user that exists inside.
    step("user and group", identity::assume())?;
    let root = step("new root", root::enter(plan, sources))?;
    step(
        "host name",
        rustix::system::sethostname(plan.hostname.as_bytes()).map_err(io::Error::from),
    )?;
    if network == SandboxNetwork::Own {
        step("loopback", sys::bring_up_loopback())?;
    }
    // After the change of user, which would clear it: when the launcher dies, so does the sandbox.
    step(
        "death signal",
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(io::Error::from),
    )?;
    step("session", rustix::process::setsid().map(drop).map_err(io::Error::from))?;
    // Landlock and seccomp ask for this, since no capability will be left to allow them.
    step("no new privileges", rustix::thread::set_no_new_privs(true).map_err(io::Error::from))?;
    Ok(Prepared { root, oom_score })
}

/// Makes little of what is sent on connections that nobody has accepted, which is charged to
/// nobody. Once somebody reads from one, its buffer grows as usual. Where `/proc/sys` is read-only
/// this is left as it is.
fn shrink_receive_buffers() {
    const SIZES: &str = "/proc/sys/net/ipv4/tcp_rmem";
    let most = std::fs::read_to_string(SIZES)
        .ok()
        .and_then(|sizes| sizes.split_whitespace().nth(2)?.parse::<u64>().ok());
    if let Some(most) = most {
        let _ = std::fs::write(SIZES, format!("4096 16384 {}", most.max(16384)));
    }
}

fn park(channel: OwnedFd) -> Option<(SandboxLimits, OwnedFd)> {
    let packet = channel::receive(&channel).ok()??;
    match postcard::from_bytes(&packet.bytes) {
        Ok(ToLauncher::Launch { limits, .. }) => Some((limits, packet.fd?)),
        _ => None,
    }
}

/// The steps that are left, in the only order that works.
fn become_guest(
    Prepared { root, oom_score }: Prepared,
    plan: &SandboxPlan,
    limits: &SandboxLimits,
    stream: &OwnedFd,
    program: BorrowedFd<'_>,
) -> Result<Infallible, Failure> {
    // Before Landlock, which forbids to change a mounted file system.
    step("disk limit", root::resize_scratch(&root.scratch, &limits.scratch))?;
    step("resource limits", confine::set_rlimits(&limits.rlimits))?;
    step("descriptors", arrange_descriptors(stream))?;
    step("oom score", sys::place_fd(oom_score.as_fd(), OOM_SCORE_FD))?;
    step("landlock", confine::restrict_paths(&plan.landlock))?;
    step("capabilities", identity::drop_capabilities())?;
    // Before the filters, which refuse these locks to everybody.
    let occupied = plan.own_inodes.then(|| shared_inodes::occupy(Owner::OpenFile)).flatten();
    // Before the filters, which forbid to install another.
    step("witness", leave_witness(plan, root.locks.as_ref()))?;
    // Last, because it forbids most of the calls above.
    step("seccomp", confine::filter_system_calls(&plan.seccomp))?;
    let private = root.private && occupied.is_some();
    step("start guest", Err(execute(plan, program, private)))
}

/// Leaves what the script's calls are heard on, and the list of locks, where the guest looks for
/// them. A guest that lacks either cannot count locks, and then there are to be none.
fn leave_witness(plan: &SandboxPlan, locks: Option<&OwnedFd>) -> io::Result<()> {
    let witness = confine::witness(&plan.witness);
    if let Some(witness) = &witness {
        sys::place_fd(witness.as_fd(), WITNESS_FD)?;
    }
    match (witness, locks) {
        (Some(_), Some(locks)) => sys::place_fd(locks.as_fd(), LOCKS_FD),
        _ => confine::filter_system_calls(&plan.no_locks),
    }
}

fn open_oom_score() -> io::Result<OwnedFd> {
    Ok(std::fs::OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj")?.into())
}

fn step<T>(step: &'static str, result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure { step, error })
}

/// The guest finds its stream on one number, nothing on 0 to 2, and no other descriptor.
fn arrange_descriptors(stream: &OwnedFd) -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    // First, because the stream may itself be a low number.
    let stream = rustix::io::fcntl_dupfd_cloexec(stream, CHANNEL_FD + 1)?;
    for target in 0..CHANNEL_FD {
        sys::place_fd(null.as_fd(), target)?;
    }
    sys::place_fd(stream.as_fd(), CHANNEL_FD)?;
    sys::close_on_exec_from(CHANNEL_FD as u32 + 1)
}

fn execute(plan: &SandboxPlan, program: BorrowedFd<'_>, private_inodes: bool) -> io::Error {
    let mut arguments = vec![c"skillbox-guest", c"guest"];
    if private_inodes {
        arguments.push(PRIVATE_INODES);
    }
    match CString::new(format!("PATH={}", plan.path)) {
        Ok(path) => sys::execute(program, &arguments, &[&path]),
        Err(error) => error.into(),
    }
}

/// Says on the stream what went wrong, in the place of the guest that will not come.
fn report(stream: &OwnedFd, failure: &Failure) {
    let errno = failure.error.raw_os_error().unwrap_or(0);
    let mut bytes = Vec::new();
    let message = FromGuest::Failed { step: failure.step, errno };
    if frame::encode(&message, frame::MAX_FROM_GUEST, &mut bytes).is_ok() {
        // Nobody is left to tell when this fails too.
        let _ = rustix::net::send(stream, &bytes, rustix::net::SendFlags::NOSIGNAL);
    }
}
