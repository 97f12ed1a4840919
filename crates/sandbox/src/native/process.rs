//! The host's end of one launcher process.

use super::cgroups;
use crate::guest::GuestHandle;
use crate::launcher::LaunchError;
use crate::program;
use async_trait::async_trait;
use guest::channel;
use guest::jail::{
    Cgroups, Counters, EnforcedLimits, FromLauncher, SandboxLimits, SandboxNetwork, SandboxPlan,
    ToLauncher,
};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use rustix::process::Signal;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, oneshot};

/// Requests on their way at once; more would fill the socket, and a full one blocks.
const IN_FLIGHT: usize = 8;

/// Children kept ready by each launcher process.
const SPARES: u32 = 2;

/// A running launcher process. Dropping it ends it, and every sandbox it made.
pub struct Process {
    child: Child,
    socket: OwnedFd,
    waiting: Arc<Waiting>,
    in_flight: Semaphore,
    next_id: AtomicU64,
}

/// What the launcher said of a new sandbox.
pub struct Launched {
    pub enforced: EnforcedLimits,
    pub handle: NativeHandle,
}

type Reply = Result<(OwnedFd, EnforcedLimits, oneshot::Receiver<Counters>), LaunchError>;

/// Who waits for what from the launcher; `None` once it is gone.
#[derive(Default)]
struct Waiting(Mutex<Option<Tables>>);

#[derive(Default)]
struct Tables {
    launches: HashMap<u64, oneshot::Sender<Reply>>,
    ends: HashMap<u64, oneshot::Sender<Counters>>,
}

impl Process {
    pub fn start(
        cgroups: &Cgroups,
        network: SandboxNetwork,
        plan: &SandboxPlan,
    ) -> Result<Process, LaunchError> {
        let (socket, child) = spawn().map_err(|source| setup("start launcher", source))?;
        let waiting = Arc::new(Waiting(Mutex::new(Some(Tables::default()))));
        let plan = Box::new(plan.clone());
        let start = ToLauncher::Start { cgroups: cgroups.clone(), spares: SPARES, network, plan };
        let process = Process {
            child,
            socket,
            waiting: Arc::clone(&waiting),
            in_flight: Semaphore::new(IN_FLIGHT),
            next_id: AtomicU64::new(1),
        };
        process.send(&start, None)?;
        let reader =
            process.socket.try_clone().map_err(|source| setup("start launcher", source))?;
        let (cgroups, pid) = (cgroups.clone(), process.child.id());
        // A thread rather than a task: the socket blocks, and must be read whatever the runtime
        // does.
        std::thread::Builder::new()
            .name("skillbox-launcher".to_owned())
            .spawn(move || {
                listen(&reader, &waiting);
                // A launcher that was killed could not do it, and its sandboxes died with it.
                cgroups::remove_launched(&cgroups, pid);
            })
            .map_err(|source| setup("start launcher", source))?;
        Ok(process)
    }

    /// False once the launcher is gone.
    pub fn is_alive(&self) -> bool {
        self.waiting.with(|_| ()).is_some()
    }

    /// Asks for a sandbox whose guest speaks on `stream`.
    pub async fn launch(
        &self,
        limits: SandboxLimits,
        stream: BorrowedFd<'_>,
    ) -> Result<Launched, LaunchError> {
        let _permit = self.in_flight.acquire().await.map_err(|_| LaunchError::LauncherGone)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, replied) = oneshot::channel();
        self.waiting
            .with(|tables| tables.launches.insert(id, reply))
            .ok_or(LaunchError::LauncherGone)?;
        match self.send(&ToLauncher::Launch { id, limits }, Some(stream)) {
            Err(LaunchError::Setup { source, .. })
                if source.raw_os_error() == Some(libc::EPIPE) =>
            {
                // Its end was not noticed yet; whoever comes next must not ask it again.
                self.waiting.close();
                return Err(LaunchError::LauncherGone);
            }
            sent => sent?,
        }
        let (pidfd, enforced, ended) = replied.await.map_err(|_| LaunchError::LauncherGone)??;
        Ok(Launched {
            enforced,
            handle: NativeHandle { pidfd, ended: Some(ended), counters: Counters::default() },
        })
    }

    fn send(&self, message: &ToLauncher, fd: Option<BorrowedFd<'_>>) -> Result<(), LaunchError> {
        let bytes = postcard::to_allocvec(message)
            .map_err(|error| setup("encode", io::Error::other(error)))?;
        channel::send(&self.socket, &bytes, fd).map_err(|source| setup("ask launcher", source))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The launcher sees the end of its input, kills what it has, and goes.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        let _ = self.child.wait();
    }
}

fn spawn() -> io::Result<(OwnedFd, Child)> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let program = program::sealed()?;
    let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg0("skillbox-launcher")
        .arg("launcher")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        // The terminal's signals are the service's to handle.
        .process_group(0)
        .spawn()?;
    Ok((ours, child))
}

/// Hands each message to whoever waits for it, until the launcher is gone.
fn listen(socket: &OwnedFd, waiting: &Waiting) {
    while let Ok(Some(packet)) = channel::receive(socket) {
        match postcard::from_bytes(&packet.bytes) {
            Ok(FromLauncher::Launched { id, enforced, .. }) => match packet.fd {
                Some(pidfd) => waiting.launched(id, pidfd, enforced),
                // No descriptor was free to receive it with. Only this sandbox is lost: it ends
                // with its stream.
                None => waiting.reply(
                    id,
                    Err(setup("hold sandbox", io::Error::from_raw_os_error(libc::EMFILE))),
                ),
            },
            Ok(FromLauncher::Failed { id, step, errno }) => {
                waiting.reply(id, Err(setup(&step, io::Error::from_raw_os_error(errno))));
            }
            Ok(FromLauncher::Gone { id, counters }) => {
                if let Some(end) = waiting.with(|tables| tables.ends.remove(&id)).flatten() {
                    let _ = end.send(counters);
                }
            }
            Err(_) => break,
        }
    }
    waiting.close();
}

impl Waiting {
    fn with<T>(&self, act: impl FnOnce(&mut Tables) -> T) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
    }

    /// The launcher is gone. Dropping the senders tells everybody who still waits.
    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn launched(&self, id: u64, pidfd: OwnedFd, enforced: EnforcedLimits) {
        let (end, ended) = oneshot::channel();
        self.with(|tables| tables.ends.insert(id, end));
        self.reply(id, Ok((pidfd, enforced, ended)));
    }

    fn reply(&self, id: u64, reply: Reply) {
        let asker = self.with(|tables| tables.launches.remove(&id)).flatten();
        // Nobody waits any more when the request was dropped; then the sandbox must go too.
        if let Some(Err(Ok((pidfd, ..)))) = asker.map(|asker| asker.send(reply)) {
            let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
}

fn setup(step: &str, source: io::Error) -> LaunchError {
    LaunchError::Setup { step: step.to_owned(), source }
}

/// The hold on one native sandbox: its first process, whose death is the death of all of them.
pub struct NativeHandle {
    pidfd: OwnedFd,
    ended: Option<oneshot::Receiver<Counters>>,
    counters: Counters,
}

#[async_trait]
impl GuestHandle for NativeHandle {
    fn kill(&mut self) {
        // An error means that it is dead already.
        let _ = rustix::process::pidfd_send_signal(self.pidfd.as_fd(), Signal::KILL);
    }

    async fn wait_until_removed(&mut self) -> Counters {
        if let Some(ended) = self.ended.take() {
            // When the launcher died its sandboxes died with it, and nobody counted.
            self.counters = ended.await.unwrap_or_default();
        }
        self.counters
    }
}
