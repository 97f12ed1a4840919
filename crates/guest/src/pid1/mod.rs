//! PID 1 inside a sandbox: says what holds, places one job, runs it, buries everything, sends what it left.
//!
//! It is already confined when it starts and cannot gain anything. It is one thread, keeps no more memory than
//! the buffers it makes before the script starts, and ends as soon as its host does not listen any more, which
//! ends the sandbox. It decides nothing: every bound comes from the host, which checks them again.

mod channel;
mod collect;
mod failure;
mod kernel;
mod listing;
mod measure;
mod oom;
mod place;
mod process;
mod scratch;
mod watch;

use channel::Channel;
use failure::Failure;
use guest::protocol::{Exit, ExitStatus, FromGuest};

/// Runs the one job of this sandbox; the stream to the host is on descriptor 3.
pub fn main() -> ! {
    let mut host = Channel::open();
    let ended = prepare().and_then(|oom| serve(&mut host, oom));
    if let Err(Failure { step, errno }) = ended {
        host.send(&FromGuest::Failed { step, errno: errno.raw_os_error() });
        std::process::exit(1);
    }
    // The host has heard everything and ends the sandbox by going away.
    host.wait_for_end();
}

/// Hides this process from the scripts of the same user, and makes the directories of the contract.
fn prepare() -> Result<oom::Score, Failure> {
    // It must be opened before hiding: afterwards the file belongs to root.
    let oom = oom::Score::open();
    kernel::hide_from_same_user().map_err(Failure::at("hide"))?;
    kernel::watch_children();
    place::make_directories()?;
    Ok(oom)
}

fn serve(host: &mut Channel, oom: oom::Score) -> Result<(), Failure> {
    host.send(&FromGuest::Ready(measure::measure()?));

    let order = place::receive(host)?;
    let mut scratch = scratch::Scratch::open()?;
    let started = process::start(&order.program, order.stdin.as_ref(), &oom);
    if started.is_ok() {
        host.send(&FromGuest::Started);
    }
    // Everything needed later is allocated now, while the interpreter starts: the script may leave no memory.
    let mut listing = listing::Listing::new();
    let mut logs = watch::Logs::new(order.bounds.log_bytes);
    let exit = match started {
        Ok(running) => watch::watch(host, running, &mut logs, &mut scratch),
        Err(errno) => {
            kernel::bury_everything();
            let status = ExitStatus::NotStarted(errno.raw_os_error());
            Exit { status, disk_full: scratch.was_full(), log_bytes_dropped: 0 }
        }
    };
    host.send(&FromGuest::Exit(exit));
    collect::collect(host, &order.bounds, &mut listing, logs.buffer());
    host.send(&FromGuest::Done);
    Ok(())
}
