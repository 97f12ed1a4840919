//! The launcher: a small single-threaded process on the host that clones sandboxes, reaps them and
//! cleans up after them.
//!
//! It is a process of its own because a fork copies the parent's page tables, and because a
//! multi-threaded program must not allocate between fork and exec: the service is large and
//! multi-threaded, the launcher is neither. It keeps a few spare children ready in their own
//! namespaces, cgroups and roots and assigns one to each launch request. When a sandbox has ended,
//! it reaps it, reads its counters and removes its cgroup. When the host disconnects, the launcher
//! kills everything and exits.

mod cgroup;
mod child;
pub(crate) mod confine;
mod identity;
mod mount;
mod root;
mod spare;
mod sys;

use cgroup::SandboxCgroup;
pub(crate) use cgroup::parse_field;
use guest::channel;
use guest::jail::{
    Cgroups, Counters, EnforcedLimits, FromLauncher, SandboxNetwork, SandboxPlan, ToLauncher,
};
use rustix::event::{PollFd, PollFlags};
use spare::SpareChild;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long to wait for killed sandboxes at shutdown. If the kernel is stuck, a process may never
/// end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay before retrying to remove a cgroup that is still busy.
const REMOVE_RETRY_INTERVAL: rustix::event::Timespec =
    rustix::event::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The number of attempts to remove the remaining cgroups at shutdown.
const SHUTDOWN_REMOVE_ATTEMPTS: u32 = 20;

/// A child that became a sandbox.
struct RunningSandbox {
    id: u64,
    pid: i32,
    pidfd: OwnedFd,
    group: SandboxCgroup,
}

struct LauncherProcess {
    host: OwnedFd,
    /// The executable of this process, from which the guest is executed.
    program: OwnedFd,
    cgroups: Cgroups,
    network: SandboxNetwork,
    plan: Box<SandboxPlan>,
    target_spares: usize,
    /// False after a spare could not be made, until the next launch request. Otherwise the launcher
    /// would retry in a busy loop.
    may_replenish: bool,
    spares: VecDeque<SpareChild>,
    sandboxes: Vec<RunningSandbox>,
    /// Cgroups that could not be removed yet.
    leftovers: Vec<SandboxCgroup>,
    children_made: u64,
}

/// Serves the host on standard input until it disconnects.
pub(crate) fn main() -> ! {
    let served = start().and_then(|mut launcher| {
        let served = launcher.serve();
        launcher.shut_down();
        served
    });
    match served {
        Ok(()) => std::process::exit(0),
        // The host disconnected while a message was being sent, or with unread messages.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)) => {
            std::process::exit(0)
        }
        Err(error) => {
            eprintln!("skillbox launcher: {error}");
            std::process::exit(1);
        }
    }
}

fn start() -> io::Result<LauncherProcess> {
    let host = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = std::fs::File::open("/dev/null")?;
    sys::duplicate_to(null.as_fd(), 0)?;
    let program = std::fs::File::open("/proc/self/exe")?.into();
    confine::forbid_core_dumps();
    let packet = channel::receive(&host)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let Ok(ToLauncher::Start { cgroups, spares, network, plan }) =
        postcard::from_bytes(&packet.bytes)
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(LauncherProcess {
        host,
        program,
        cgroups,
        network,
        plan,
        target_spares: spares as usize,
        may_replenish: true,
        spares: VecDeque::new(),
        sandboxes: Vec::new(),
        leftovers: Vec::new(),
        children_made: 0,
    })
}

impl LauncherProcess {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            let (host_ready, ended) = self.wait()?;
            // From the back, so that `swap_remove` does not move an index that is still to come.
            for index in ended.into_iter().rev() {
                let sandbox = self.sandboxes.swap_remove(index);
                self.reap_sandbox(sandbox)?;
            }
            if host_ready {
                let Some(packet) = channel::receive(&self.host)? else { return Ok(()) };
                self.launch(packet)?;
            } else {
                // Only while no request is pending: both can take milliseconds, which a launch
                // would have to wait for.
                self.leftovers.retain(|group| !group.remove());
                self.replenish_spares();
            }
        }
    }

    /// Waits for a message of the host or the end of a sandbox. Does not block while spares are
    /// missing, and not for long while cgroups are to be removed.
    fn wait(&self) -> io::Result<(bool, Vec<usize>)> {
        let no_wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if self.lacks_spares() {
            Some(&no_wait)
        } else if self.leftovers.is_empty() {
            None
        } else {
            Some(&REMOVE_RETRY_INTERVAL)
        };
        let mut fds = vec![PollFd::new(&self.host, PollFlags::IN)];
        fds.extend(self.sandboxes.iter().map(|sandbox| PollFd::new(&sandbox.pidfd, PollFlags::IN)));
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, timeout))?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let ended = (1..ready.len()).filter(|i| ready[*i]).map(|i| i - 1).collect();
        Ok((ready[0], ended))
    }

    fn lacks_spares(&self) -> bool {
        self.may_replenish && self.spares.len() < self.target_spares
    }

    fn replenish_spares(&mut self) {
        if self.lacks_spares() {
            match self.make_spare() {
                Ok(spare) => self.spares.push_back(spare),
                // The next launch request tries again and reports the error to the host.
                Err(_) => self.may_replenish = false,
            }
        }
    }

    fn make_spare(&mut self) -> io::Result<SpareChild> {
        self.children_made += 1;
        let name = format!("{}-{}", std::process::id(), self.children_made);
        let group = SandboxCgroup::create(&self.cgroups, &name)?;
        let program = self.program.as_fd();
        SpareChild::clone_into(group, &self.plan, self.network, program).map_err(
            |(group, error)| {
                self.leftovers.extend((!group.remove()).then_some(group));
                error
            },
        )
    }

    fn launch(&mut self, packet: channel::Packet) -> io::Result<()> {
        let Ok(ToLauncher::Launch { id, limits }) = postcard::from_bytes(&packet.bytes) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.may_replenish = true;
        // A spare may have died while it waited, for example by the host's OOM killer. Try all of
        // them, and then a new one: its failure is reported, because it has a current cause.
        while let Some(spare) = self.spares.pop_front() {
            if let Ok(enforced) = spare.assign(&limits.cgroup, &packet) {
                return self.report_launched(id, spare, enforced);
            }
            self.discard(spare);
        }
        let spare = match self.make_spare() {
            Ok(spare) => spare,
            Err(error) => return self.report_failed(id, "clone", &error),
        };
        match spare.assign(&limits.cgroup, &packet) {
            Ok(enforced) => self.report_launched(id, spare, enforced),
            Err(error) => {
                self.discard(spare);
                self.report_failed(id, "limits", &error)
            }
        }
    }

    fn report_launched(
        &mut self,
        id: u64,
        spare: SpareChild,
        enforced: EnforcedLimits,
    ) -> io::Result<()> {
        let launched = FromLauncher::Launched { id, pid: spare.pid, enforced };
        self.send(&launched, Some(spare.pidfd.as_fd()))?;
        self.sandboxes.push(RunningSandbox {
            id,
            pid: spare.pid,
            pidfd: spare.pidfd,
            group: spare.group,
        });
        Ok(())
    }

    fn discard(&mut self, spare: SpareChild) {
        kill(&spare.pidfd);
        let _ = sys::reap(spare.pid);
        self.leftovers.push(spare.group);
    }

    fn report_failed(&self, id: u64, step: &str, error: &io::Error) -> io::Result<()> {
        let errno = error.raw_os_error().unwrap_or(0);
        self.send(&FromLauncher::Failed { id, step: step.to_owned(), errno }, None)
    }

    fn send(&self, message: &FromLauncher, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
        channel::send(&self.host, &bytes, fd)
    }

    /// Reaps a sandbox that ended. Its PID 1 is the last process of the pid namespace to end, so
    /// its cgroup is empty now and its counters are final.
    fn reap_sandbox(&mut self, sandbox: RunningSandbox) -> io::Result<()> {
        let counters = reap_and_count(sandbox.pid, &sandbox.group)?;
        self.leftovers.extend((!sandbox.group.remove()).then_some(sandbox.group));
        self.send(&FromLauncher::Ended { id: sandbox.id, counters }, None)
    }

    /// Kills and reaps all children and removes all cgroups, as far as the kernel allows in time.
    fn shut_down(&mut self) {
        let spares = self.spares.drain(..).map(|spare| (spare.pid, spare.pidfd, spare.group));
        let sandboxes =
            self.sandboxes.drain(..).map(|sandbox| (sandbox.pid, sandbox.pidfd, sandbox.group));
        let all: Vec<_> = spares.chain(sandboxes).collect();
        all.iter().for_each(|(_, pidfd, _)| kill(pidfd));
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        for (pid, pidfd, group) in all {
            if wait_for_exit(&pidfd, deadline) {
                let _ = sys::reap(pid);
                self.leftovers.push(group);
            }
        }
        for _ in 0..SHUTDOWN_REMOVE_ATTEMPTS {
            self.leftovers.retain(|group| !group.remove());
            if self.leftovers.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn reap_and_count(pid: i32, group: &SandboxCgroup) -> io::Result<Counters> {
    let usage = sys::reap(pid)?;
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    let mut counters = Counters {
        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_memory_bytes: usage.ru_maxrss as u64 * 1024,
        ..Counters::default()
    };
    group.add_counters(&mut counters);
    Ok(counters)
}

/// Waits for a process to exit; false when it has not by the deadline.
fn wait_for_exit(pidfd: &OwnedFd, deadline: Instant) -> bool {
    let remaining = deadline.saturating_duration_since(Instant::now());
    let remaining = rustix::event::Timespec {
        tv_sec: remaining.as_secs() as i64,
        tv_nsec: i64::from(remaining.subsec_nanos()),
    };
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&remaining)))
        .is_ok_and(|ready| ready > 0)
}

/// Kills by pidfd, so that a recycled pid is never hit. An error means that the process has exited.
fn kill(pidfd: &OwnedFd) {
    let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
}
