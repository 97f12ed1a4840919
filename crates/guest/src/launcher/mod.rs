//! The launcher: a small single-threaded process of the host that clones sandboxes and sees them to
//! their end.
//!
//! It exists because a fork copies its parent's page tables and because nothing may allocate
//! between a fork and an exec in a threaded program: the service is large and threaded, this is
//! neither. It keeps a few children ready in their own namespaces, cgroups and roots, tells one its
//! limits when asked for a sandbox, and when a sandbox has ended reaps it, reads its counters and
//! removes its cgroup. When the host goes away, everything here does.

mod cgroup;
mod child;
pub mod confine;
mod identity;
mod root;
mod sys;

use cgroup::Group;
pub use cgroup::field;
use guest::channel;
use guest::jail::{
    CgroupLimits, Cgroups, Counters, EnforcedLimits, FromLauncher, SandboxNetwork, SandboxPlan,
    ToLauncher,
};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use sys::Cloned;

/// Every namespace but that of the network, which the host says, and the cgroup one, which a child
/// enters after its cgroup.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// Tells a child that its user is mapped. Whatever else is not empty would do.
const MAPPED: &[u8] = b"mapped";

/// How long the dying have at the end of the launcher. A kernel in trouble may never let one go.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// How long to wait before trying again to remove a cgroup the kernel still calls busy.
const RETRY: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A child that was not asked for yet.
struct Spare {
    pid: i32,
    pidfd: OwnedFd,
    channel: OwnedFd,
    group: Group,
    unique_uid: bool,
}

/// A child that became a sandbox.
struct Sandbox {
    id: u64,
    pid: i32,
    pidfd: OwnedFd,
    group: Group,
}

struct Launcher {
    host: OwnedFd,
    /// This very program, for the guest to be executed from.
    program: OwnedFd,
    cgroups: Cgroups,
    network: SandboxNetwork,
    plan: Box<SandboxPlan>,
    spares_wanted: usize,
    /// Cleared when making a spare failed, until something changes.
    replenish: bool,
    spares: VecDeque<Spare>,
    sandboxes: Vec<Sandbox>,
    /// Cgroups whose removal failed.
    leftovers: Vec<Group>,
    made: u64,
}

/// Serves the host on standard input until it goes away.
pub fn main() -> ! {
    let served = start().and_then(|mut launcher| {
        let served = launcher.serve();
        launcher.end();
        served
    });
    match served {
        Ok(()) => std::process::exit(0),
        // The host went away while it was being told something, or without hearing it.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)) => {
            std::process::exit(0)
        }
        Err(error) => {
            eprintln!("skillbox launcher: {error}");
            std::process::exit(1);
        }
    }
}

fn start() -> io::Result<Launcher> {
    let host = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = std::fs::File::open("/dev/null")?;
    sys::place_fd(null.as_fd(), 0)?;
    let program = std::fs::File::open("/proc/self/exe")?.into();
    confine::forbid_core_dumps();
    let packet = channel::receive(&host)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let Ok(ToLauncher::Start { cgroups, spares, network, plan }) =
        postcard::from_bytes(&packet.bytes)
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(Launcher {
        host,
        program,
        cgroups,
        network,
        plan,
        spares_wanted: spares as usize,
        replenish: true,
        spares: VecDeque::new(),
        sandboxes: Vec::new(),
        leftovers: Vec::new(),
        made: 0,
    })
}

impl Launcher {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            let (host_ready, ended) = self.wait()?;
            for index in ended.into_iter().rev() {
                let sandbox = self.sandboxes.swap_remove(index);
                self.bury(sandbox)?;
            }
            if host_ready {
                let Some(packet) = channel::receive(&self.host)? else { return Ok(()) };
                self.launch(packet)?;
            } else {
                // Only when nobody waits.
                self.leftovers.retain(|group| !group.remove());
                self.keep_spares();
            }
        }
    }

    /// Waits for the host or the end of a sandbox, for no time at all while there is work to catch
    /// up on.
    fn wait(&self) -> io::Result<(bool, Vec<usize>)> {
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if self.lacks_spares() {
            Some(&now)
        } else if self.leftovers.is_empty() {
            None
        } else {
            Some(&RETRY)
        };
        let mut fds = vec![PollFd::new(&self.host, PollFlags::IN)];
        fds.extend(self.sandboxes.iter().map(|sandbox| PollFd::new(&sandbox.pidfd, PollFlags::IN)));
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, timeout))?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let ended = (1..ready.len()).filter(|i| ready[*i]).map(|i| i - 1).collect();
        Ok((ready[0], ended))
    }

    fn lacks_spares(&self) -> bool {
        self.replenish && self.spares.len() < self.spares_wanted
    }

    fn keep_spares(&mut self) {
        if self.lacks_spares() {
            match self.make_spare() {
                Ok(spare) => self.spares.push_back(spare),
                // The next launch tries again and tells its host why it failed.
                Err(_) => self.replenish = false,
            }
        }
    }

    fn make_spare(&mut self) -> io::Result<Spare> {
        self.made += 1;
        let group = Group::create(&self.cgroups, &format!("{}-{}", std::process::id(), self.made))?;
        let spare = self.clone_child(group);
        if let Err((group, error)) = spare {
            self.leftovers.extend((!group.remove()).then_some(group));
            return Err(error);
        }
        spare.map_err(|(_, error)| error)
    }

    fn clone_child(&self, group: Group) -> Result<Spare, (Group, io::Error)> {
        let attempt = || -> io::Result<_> {
            let (ours, theirs) = rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )?;
            let target = group.clone_target()?;
            match sys::clone_into(namespaces(self.network), target.as_ref().map(AsFd::as_fd))? {
                Cloned::Child => {
                    // Copies of the launcher's descriptors would hide its end from the host and
                    // from siblings.
                    sys::close_all_but([theirs.as_fd(), self.program.as_fd()])?;
                    child::run(&group, theirs, self.program.as_fd(), (&self.plan, self.network))
                }
                Cloned::Parent { pid, pidfd } => match map_and_tell(pid, &ours) {
                    Ok(unique_uid) => Ok((pid, pidfd, ours, unique_uid)),
                    Err(error) => {
                        kill(&pidfd);
                        let _ = sys::reap(pid);
                        Err(error)
                    }
                },
            }
        };
        match attempt() {
            Ok((pid, pidfd, channel, unique_uid)) => {
                Ok(Spare { pid, pidfd, channel, group, unique_uid })
            }
            Err(error) => Err((group, error)),
        }
    }

    fn launch(&mut self, packet: channel::Packet) -> io::Result<()> {
        let Ok(ToLauncher::Launch { id, limits }) = postcard::from_bytes(&packet.bytes) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.replenish = true;
        // A child that waited may have died meanwhile, as any process can; one made just now has
        // not.
        while let Some(spare) = self.spares.pop_front() {
            if let Ok(enforced) = hand_over(&spare, &limits.cgroup, &packet) {
                return self.launched(id, spare, enforced);
            }
            self.discard(spare);
        }
        let spare = match self.make_spare() {
            Ok(spare) => spare,
            Err(error) => return self.refuse(id, "clone", &error),
        };
        match hand_over(&spare, &limits.cgroup, &packet) {
            Ok(enforced) => self.launched(id, spare, enforced),
            Err(error) => {
                self.discard(spare);
                self.refuse(id, "limits", &error)
            }
        }
    }

    fn launched(&mut self, id: u64, spare: Spare, enforced: EnforcedLimits) -> io::Result<()> {
        let launched = FromLauncher::Launched { id, pid: spare.pid, enforced };
        self.tell(&launched, Some(spare.pidfd.as_fd()))?;
        self.sandboxes.push(Sandbox { id, pid: spare.pid, pidfd: spare.pidfd, group: spare.group });
        Ok(())
    }

    fn discard(&mut self, spare: Spare) {
        kill(&spare.pidfd);
        let _ = sys::reap(spare.pid);
        self.leftovers.push(spare.group);
    }

    fn refuse(&self, id: u64, step: &str, error: &io::Error) -> io::Result<()> {
        let errno = error.raw_os_error().unwrap_or(0);
        self.tell(&FromLauncher::Failed { id, step: step.to_owned(), errno }, None)
    }

    fn tell(&self, message: &FromLauncher, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
        channel::send(&self.host, &bytes, fd)
    }

    /// Reaps a sandbox that ended. Its PID 1 is the last to go, so its cgroup is empty now.
    fn bury(&mut self, sandbox: Sandbox) -> io::Result<()> {
        let counters = bury(sandbox.pid, &sandbox.group)?;
        self.leftovers.extend((!sandbox.group.remove()).then_some(sandbox.group));
        self.tell(&FromLauncher::Gone { id: sandbox.id, counters }, None)
    }

    /// Kills all and leaves nothing.
    fn end(&mut self) {
        let spares = self.spares.drain(..).map(|spare| (spare.pid, spare.pidfd, spare.group));
        let sandboxes =
            self.sandboxes.drain(..).map(|sandbox| (sandbox.pid, sandbox.pidfd, sandbox.group));
        let all: Vec<_> = spares.chain(sandboxes).collect();
        all.iter().for_each(|(_, pidfd, _)| kill(pidfd));
        let until = Instant::now() + LAST_WAIT;
        for (pid, pidfd, group) in all {
            if ended(&pidfd, until) {
                let _ = sys::reap(pid);
                self.leftovers.push(group);
            }
        }
        for _ in 0..20 {
            self.leftovers.retain(|group| !group.remove());
            if self.leftovers.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn namespaces(network: SandboxNetwork) -> u64 {
    let network = match network {
        SandboxNetwork::Own => libc::CLONE_NEWNET,
        SandboxNetwork::Host => 0,
    };
    (NAMESPACES | network) as u64
}

/// Maps the user of a child, which waits for that. True when it is this run's alone.
fn map_and_tell(pid: i32, channel: &OwnedFd) -> io::Result<bool> {
    let unique_uid = identity::map(pid)?;
    channel::send(channel, MAPPED, None)?;
    Ok(unique_uid)
}

/// Sets the limits of a spare's cgroup and gives it the packet with the others.
fn hand_over(
    spare: &Spare,
    limits: &CgroupLimits,
    packet: &channel::Packet,
) -> io::Result<EnforcedLimits> {
    let enforced = spare.group.limit(limits)?;
    let stream = packet.fd.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
    channel::send(&spare.channel, &packet.bytes, Some(stream.as_fd()))?;
    Ok(EnforcedLimits { unique_uid: spare.unique_uid, ..enforced })
}

fn bury(pid: i32, group: &Group) -> io::Result<Counters> {
    let usage = sys::reap(pid)?;
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    let mut counters = Counters {
        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_memory_bytes: usage.ru_maxrss as u64 * 1024,
        ..Counters::default()
    };
    group.count(&mut counters);
    Ok(counters)
}

/// Waits for the end of a process; false when it has not come in time.
fn ended(pidfd: &OwnedFd, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let left = rustix::event::Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&left)))
        .is_ok_and(|ready| ready > 0)
}

fn kill(pidfd: &OwnedFd) {
    // An error means that it has ended already.
    let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
}
