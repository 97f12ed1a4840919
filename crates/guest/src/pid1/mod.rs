//! PID 1 inside a sandbox: says what holds, places one job, runs it, buries everything, sends what
//! it left.
//!
//! It is already confined when it starts, or confines itself first, and cannot gain anything. It is
//! one thread, keeps no more memory than the buffers it makes before the script starts, and ends as
//! soon as its host does not listen any more, which ends the sandbox. It decides nothing: every
//! bound comes from the host, which checks them again.

mod cgroup;
mod channel;
mod collect;
mod crowd;
mod failure;
mod kernel;
mod listing;
mod locks;
mod measure;
mod oom;
mod place;
mod process;
mod scratch;
mod shebang;
mod sockets;
mod watch;
mod witness;

use crate::launcher::confine;
use crate::shared_inodes::{self, Owner};
use channel::Channel;
use failure::Failure;
use guest::jail::{CHANNEL_FD, Counters, PRIVATE_INODES, ScratchLimits};
use guest::protocol::{Confinement, ExitReport, ExitStatus, FromGuest, ToGuest};
use witness::Witness;

/// Runs the one job of this sandbox; the stream to the host is on descriptor 3.
pub fn main() -> ! {
    let host = Channel::on_socket();
    kernel::close_on_exec_from(CHANNEL_FD + 1);
    let private_inodes = std::env::args_os()
        .any(|argument| argument.as_encoded_bytes() == PRIVATE_INODES.to_bytes());
    let witness = Witness::left_by_the_launcher();
    let prepared = prepare(oom::Score::left_by_the_launcher());
    run(host, prepared.map(|oom| Prepared { oom, caps: None, witness, private_inodes }))
}

/// The same in a container, where the host is on the standard streams and says how to confine what
/// comes.
pub fn main_in_container() -> ! {
    let mut host = Channel::on_standard_streams();
    host.wait_for_first_word();
    let confine = match host.receive() {
        ToGuest::Confine(confine) => confine,
        _ => channel::end(),
    };
    // It must be opened before hiding, after which the file belongs to root, and before Landlock.
    let prepared = prepare(oom::Score::open()).and_then(|oom| {
        confine::lower_rlimits(&confine.rlimits);
        confine::restrict_paths(&confine.landlock).map_err(Failure::io("landlock"))?;
        // Before the witness, which these locks would wait for.
        let occupied = confine.own_inodes.then(|| shared_inodes::occupy(Owner::Process)).flatten();
        kernel::close_on_exec_from(CHANNEL_FD);
        let private_inodes =
            measure::is_gvisor() || (occupied.is_some() && measure::has_overlay_root());
        // Before the filters, which forbid to install another.
        let witness = watch_calls(&confine)?;
        // Last, because it forbids most of what was needed until here.
        confine::filter_system_calls(&confine.seccomp).map_err(Failure::io("seccomp"))?;
        let caps = Some(Caps { scratch: confine.scratch, processes: confine.processes });
        // Kept open until this process ends.
        std::mem::forget(occupied);
        Ok(Prepared { oom, caps, witness, private_inodes })
    });
    run(host, prepared)
}

/// Installs the witness. Where it cannot count record locks there are to be none, except under
/// gVisor, whose locks are memory of its own kernel and so within the limit of the container.
fn watch_calls(confine: &Confinement) -> Result<Option<Witness>, Failure> {
    let locks = locks::Locks::open();
    let listener = confine::witness(&confine.witness);
    if (locks.is_none() || listener.is_none()) && !measure::is_gvisor() {
        confine::filter_system_calls(&confine.no_locks).map_err(Failure::io("seccomp"))?;
    }
    Ok(listener.map(|listener| Witness::new(listener, locks)))
}

/// Everything there is before the first message.
struct Prepared {
    oom: oom::Score,
    caps: Option<Caps>,
    witness: Option<Witness>,
    private_inodes: bool,
}

/// What nothing around this sandbox holds, and we have to see to ourselves.
struct Caps {
    scratch: ScratchLimits,
    processes: u32,
}

fn run(mut host: Channel, prepared: Result<Prepared, Failure>) -> ! {
    let ended = prepared.and_then(|prepared| serve(&mut host, prepared));
    if let Err(Failure { step, errno }) = ended {
        host.send(&FromGuest::Failed { step, errno: errno.raw_os_error() });
        std::process::exit(1);
    }
    // The host has heard everything and ends the sandbox by going away.
    host.wait_for_end();
}

/// Hides this process from the scripts of the same user, and makes the directories of the contract.
fn prepare(oom: oom::Score) -> Result<oom::Score, Failure> {
    kernel::hide_from_same_user().map_err(Failure::at("hide"))?;
    kernel::watch_children();
    place::make_directories()?;
    Ok(oom)
}

fn serve(host: &mut Channel, prepared: Prepared) -> Result<(), Failure> {
    let Prepared { oom, caps, mut witness, private_inodes } = prepared;
    let cgroup = cgroup::Cgroup::find();
    host.send(&FromGuest::Ready(measure::measure(cgroup, witness.is_some(), private_inodes)?));

    let order = place::receive(host)?;
    let mut scratch = scratch::Scratch::open(caps.as_ref().map(|caps| caps.scratch))?;
    let in_container = caps.is_some();
    let mut crowd = crowd::Crowd::new(caps.map(|caps| caps.processes), cgroup);
    let started = process::start(&order.program, order.stdin.as_ref(), &oom);
    if started.is_ok() {
        host.send(&FromGuest::Started);
    }
    // Everything needed later is allocated now, while the interpreter starts: the script may leave
    // no memory.
    let mut listing = listing::Listing::new();
    let mut logs = watch::Logs::new(order.bounds.log_bytes);
    let mut exit = match started {
        Ok(running) => {
            watch::watch(host, running, &mut logs, (&mut scratch, &mut crowd, witness.as_mut()))
        }
        Err(errno) => {
            kernel::bury_everything();
            let status = ExitStatus::NotStarted(errno.raw_os_error());
            ExitReport {
                status,
                disk_full: scratch.was_full(),
                log_bytes_dropped: 0,
                counted: None,
            }
        }
    };
    let counted = match cgroup {
        Some(cgroup) => Some(cgroup.counters()),
        None if in_container => Some(kernel::counted_for_the_dead()),
        // The launcher of a native sandbox counts for it.
        None => None,
    };
    exit.counted = counted.map(|counted| {
        let refused = counted.forks_refused.max(u64::from(crowd.is_too_large()));
        Counters { forks_refused: refused, ..counted }
    });
    if witness.as_ref().is_some_and(Witness::saw_too_much_memory) {
        // They are memory, and we killed the script for it in the kernel's place.
        let counted = exit.counted.unwrap_or_default();
        exit.counted = Some(Counters { oom_kills: counted.oom_kills.max(1), ..counted });
    }
    host.send(&FromGuest::Exit(exit));
    collect::collect(host, &order.bounds, &mut listing, logs.buffer());
    host.send(&FromGuest::Done);
    Ok(())
}
