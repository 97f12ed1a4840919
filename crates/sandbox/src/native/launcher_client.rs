//! The host's side of one launcher process.

use super::cgroups;
use crate::guest::GuestHandle;
use crate::guest_binary;
use crate::launcher::LaunchError;
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

/// The maximum number of concurrent launch requests. More could fill the socket, and then a send
/// would block the async runtime.
const MAX_PENDING_LAUNCHES: usize = 8;

/// The number of spare children that each launcher process keeps.
const SPARES_PER_LAUNCHER: u32 = 2;

/// A running launcher process. Dropping it ends the process and all of its sandboxes.
pub(super) struct LauncherClient {
    child: Child,
    socket: OwnedFd,
    pending: Arc<PendingRequests>,
    in_flight: Semaphore,
    next_id: AtomicU64,
}

/// A launched sandbox.
pub(super) struct LaunchedSandbox {
    pub enforced: EnforcedLimits,
    pub handle: NativeHandle,
}

type Reply = Result<(OwnedFd, EnforcedLimits, oneshot::Receiver<Counters>), LaunchError>;

/// The requests that wait for messages of the launcher; `None` once the launcher has exited.
#[derive(Default)]
struct PendingRequests(Mutex<Option<PendingTables>>);

#[derive(Default)]
struct PendingTables {
    launches: HashMap<u64, oneshot::Sender<Reply>>,
    ends: HashMap<u64, oneshot::Sender<Counters>>,
}

impl LauncherClient {
    pub(super) fn start(
        cgroups: &Cgroups,
        network: SandboxNetwork,
        plan: &SandboxPlan,
    ) -> Result<LauncherClient, LaunchError> {
        let (socket, child) = spawn().map_err(|source| setup("start launcher", source))?;
        let pending = Arc::new(PendingRequests(Mutex::new(Some(PendingTables::default()))));
        let plan = Box::new(plan.clone());
        let start = ToLauncher::Start {
            cgroups: cgroups.clone(),
            spares: SPARES_PER_LAUNCHER,
            network,
            plan,
        };
        let client = LauncherClient {
            child,
            socket,
            pending: Arc::clone(&pending),
            in_flight: Semaphore::new(MAX_PENDING_LAUNCHES),
            next_id: AtomicU64::new(1),
        };
        client.send(&start, None)?;
        let reader = client.socket.try_clone().map_err(|source| setup("start launcher", source))?;
        let (cgroups, pid) = (cgroups.clone(), client.child.id());
        // A thread and not a task: the socket is blocking, and must be read even when the runtime
        // is busy or shutting down.
        std::thread::Builder::new()
            .name("skillbox-launcher".to_owned())
            .spawn(move || {
                dispatch_messages(&reader, &pending);
                // A launcher that was killed could not remove its cgroups. Its sandboxes died with
                // it.
                cgroups::remove_launcher_cgroups(&cgroups, pid);
            })
            .map_err(|source| setup("start launcher", source))?;
        Ok(client)
    }

    /// False once the launcher has exited.
    pub(super) fn is_alive(&self) -> bool {
        self.pending.with(|_| ()).is_some()
    }

    /// Launches a sandbox whose guest uses `stream`.
    pub(super) async fn launch(
        &self,
        limits: SandboxLimits,
        stream: BorrowedFd<'_>,
    ) -> Result<LaunchedSandbox, LaunchError> {
        let _permit = self.in_flight.acquire().await.map_err(|_| LaunchError::LauncherGone)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, replied) = oneshot::channel();
        self.pending
            .with(|tables| tables.launches.insert(id, reply))
            .ok_or(LaunchError::LauncherGone)?;
        match self.send(&ToLauncher::Launch { id, limits }, Some(stream)) {
            Err(LaunchError::Setup { source, .. })
                if source.raw_os_error() == Some(libc::EPIPE) =>
            {
                // The reader thread has not noticed the launcher's end yet. Close, so that the next
                // request goes to a new launcher.
                self.pending.close();
                return Err(LaunchError::LauncherGone);
            }
            sent => sent?,
        }
        let (pidfd, enforced, ended) = replied.await.map_err(|_| LaunchError::LauncherGone)??;
        Ok(LaunchedSandbox {
            enforced,
            handle: NativeHandle { pidfd, ended: Some(ended), counters: Counters::default() },
        })
    }

    fn send(&self, message: &ToLauncher, fd: Option<BorrowedFd<'_>>) -> Result<(), LaunchError> {
        let bytes = postcard::to_allocvec(message)
            .map_err(|error| setup("encode", io::Error::other(error)))?;
        channel::send(&self.socket, &bytes, fd).map_err(|source| setup("send to launcher", source))
    }
}

impl Drop for LauncherClient {
    fn drop(&mut self) {
        // The launcher receives an end of file, kills its sandboxes and exits.
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
    let program = guest_binary::open_sealed()?;
    let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg0("skillbox-launcher")
        .arg("launcher")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        // In a process group of its own, so that a Ctrl-C in the terminal reaches only the service.
        .process_group(0)
        .spawn()?;
    Ok((ours, child))
}

/// Dispatches messages to the pending requests until the launcher exits.
fn dispatch_messages(socket: &OwnedFd, pending: &PendingRequests) {
    while let Ok(Some(packet)) = channel::receive(socket) {
        match postcard::from_bytes(&packet.bytes) {
            Ok(FromLauncher::Launched { id, enforced, .. }) => match packet.fd {
                Some(pidfd) => pending.add_launched(id, pidfd, enforced),
                // This process was out of descriptors when it received the message. Only this
                // sandbox is lost: it exits when its stream is closed.
                None => pending.reply(
                    id,
                    Err(setup("receive pidfd", io::Error::from_raw_os_error(libc::EMFILE))),
                ),
            },
            Ok(FromLauncher::Failed { id, step, errno }) => {
                pending.reply(id, Err(setup(&step, io::Error::from_raw_os_error(errno))));
            }
            Ok(FromLauncher::Ended { id, counters }) => {
                if let Some(end) = pending.with(|tables| tables.ends.remove(&id)).flatten() {
                    let _ = end.send(counters);
                }
            }
            Err(_) => break,
        }
    }
    pending.close();
}

impl PendingRequests {
    fn with<T>(&self, act: impl FnOnce(&mut PendingTables) -> T) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
    }

    /// The launcher has exited. Dropping the senders wakes all pending requests with an error.
    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn add_launched(&self, id: u64, pidfd: OwnedFd, enforced: EnforcedLimits) {
        let (end, ended) = oneshot::channel();
        self.with(|tables| tables.ends.insert(id, end));
        self.reply(id, Ok((pidfd, enforced, ended)));
    }

    fn reply(&self, id: u64, reply: Reply) {
        let requester = self.with(|tables| tables.launches.remove(&id)).flatten();
        // If the request was dropped meanwhile (its future was cancelled), no guard owns the
        // sandbox, so it must be killed here.
        if let Some(Err(Ok((pidfd, ..)))) = requester.map(|requester| requester.send(reply)) {
            let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
}

fn setup(step: &str, source: io::Error) -> LaunchError {
    LaunchError::Setup { step: step.to_owned(), source }
}

/// The handle of a native sandbox: the pidfd of its first process. When that dies, the kernel kills
/// all other processes of the pid namespace.
pub(super) struct NativeHandle {
    pidfd: OwnedFd,
    ended: Option<oneshot::Receiver<Counters>>,
    counters: Counters,
}

#[async_trait]
impl GuestHandle for NativeHandle {
    fn kill(&mut self) {
        // An error means that the process is dead already.
        let _ = rustix::process::pidfd_send_signal(self.pidfd.as_fd(), Signal::KILL);
    }

    async fn wait_until_removed(&mut self) -> Counters {
        if let Some(ended) = self.ended.take() {
            // If the launcher died, its sandboxes died with it, and there are no counters.
            self.counters = ended.await.unwrap_or_default();
        }
        self.counters
    }
}
