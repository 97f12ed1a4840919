//! The native backend: sandboxes made of namespaces, cgroups, Landlock and seccomp on this machine.

mod cgroups;
pub(crate) mod doctor;
mod hierarchy;
mod interpreters;
mod isolation;
mod launcher_client;
mod plan;

use crate::guest::Guest;
use crate::isolation::{Control, Isolation};
use crate::launcher::{LaunchError, Launcher, Owner, Shape};
use crate::network::HostNetworkPermit;
use async_trait::async_trait;
use guest::jail::{Cgroups, SandboxNetwork, SandboxPlan};
use guest::protocol::Measurements;
use hierarchy::Hierarchy;
use interpreters::Interpreters;
use language::Language;
use launcher_client::{LaunchedSandbox, LauncherClient};
use plan::HostRoot;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time for a guest to become ready, on a machine under load.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The smallest sandbox in which a guest can measure its isolation.
const PROBE_SHAPE: Shape = Shape {
    language: Language::Bash,
    image: None,
    memory_bytes: 64 << 20,
    cpu_millis: 1000,
    pids: 16,
    disk_bytes: 1 << 20,
    disk_inodes: 64,
};

/// The settings of the native launcher.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    pub owner: Owner,
    /// The number of launcher processes; one per core is recommended.
    pub processes: usize,
    /// The required controls: nothing runs without them.
    pub require: Vec<Control>,
    /// The `PATH` to search for interpreters; the usual directories when `None`.
    pub search_path: Option<OsString>,
}

/// Launches sandboxes on this machine.
pub struct NativeLauncher {
    require: Vec<Control>,
    interpreters: Interpreters,
    plan: SandboxPlan,
    hierarchy: Hierarchy,
    cgroups: Cgroups,
    network: SandboxNetwork,
    /// The inodes of this process's namespaces, which no sandbox may share.
    namespaces: BTreeMap<String, u64>,
    launchers: Vec<Mutex<Arc<LauncherClient>>>,
    next: AtomicUsize,
}

impl NativeLauncher {
    /// Inspects this machine and starts the launcher processes.
    pub fn start(config: NativeConfig) -> Result<NativeLauncher, LaunchError> {
        NativeLauncher::start_with(config, SandboxNetwork::Own)
    }

    /// The same, for sandboxes in the host's network namespace.
    pub fn start_on_host_network(
        config: NativeConfig,
        _: HostNetworkPermit,
    ) -> Result<NativeLauncher, LaunchError> {
        NativeLauncher::start_with(config, SandboxNetwork::Host)
    }

    /// For tests that show that an attack succeeds without this defence.
    #[cfg(feature = "weakened")]
    pub fn start_without(
        config: NativeConfig,
        defence: crate::weakened::Defence,
    ) -> Result<NativeLauncher, LaunchError> {
        let interpreters = Interpreters::find(config.search_path.as_deref());
        let plan = plan::plan(&HostRoot::read(), &interpreters, SandboxNetwork::Own);
        NativeLauncher::start_planned(
            config,
            SandboxNetwork::Own,
            interpreters,
            crate::weakened::plan(plan, defence),
        )
    }

    fn start_with(
        config: NativeConfig,
        network: SandboxNetwork,
    ) -> Result<NativeLauncher, LaunchError> {
        let interpreters = Interpreters::find(config.search_path.as_deref());
        let plan = plan::plan(&HostRoot::read(), &interpreters, network);
        NativeLauncher::start_planned(config, network, interpreters, plan)
    }

    fn start_planned(
        config: NativeConfig,
        network: SandboxNetwork,
        interpreters: Interpreters,
        plan: SandboxPlan,
    ) -> Result<NativeLauncher, LaunchError> {
        raise_open_files_limit();
        let hierarchy = Hierarchy::find();
        let cgroups = hierarchy.claim();
        let start = || {
            LauncherClient::start(&cgroups, network, &plan)
                .map(|process| Mutex::new(Arc::new(process)))
        };
        let launchers = (0..config.processes.max(1)).map(|_| start()).collect::<Result<_, _>>()?;
        Ok(NativeLauncher {
            require: config.require,
            interpreters,
            plan,
            hierarchy,
            cgroups,
            network,
            namespaces: isolation::own_namespaces(),
            launchers,
            next: AtomicUsize::new(0),
        })
    }

    /// The next launcher process in turn, restarted if it died.
    fn next_launcher(&self) -> Result<Arc<LauncherClient>, LaunchError> {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.launchers.len();
        let mut launcher = self.launchers[index].lock().unwrap_or_else(PoisonError::into_inner);
        if !launcher.is_alive() {
            tracing::warn!("a launcher process died; starting a new one");
            *launcher = Arc::new(LauncherClient::start(&self.cgroups, self.network, &self.plan)?);
        }
        Ok(Arc::clone(&launcher))
    }

    async fn start_guest(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        let setup = |source| LaunchError::Setup { step: "stream".to_owned(), source };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(setup)?;
        ours.set_nonblocking(true).map_err(setup)?;
        let ours = tokio::net::UnixStream::from_std(ours).map_err(setup)?;
        let launched = self.clone_guest(shape, theirs.as_fd()).await?;
        drop(theirs);
        let describe =
            |measured: &Measurements<'_>| self.isolation(measured, &launched.enforced, shape);
        let guest =
            Guest::connect(ours, Box::new(launched.handle), shape.clone(), READY_TIMEOUT, describe)
                .await?;
        Ok(guest)
    }

    /// Sends the request to a launcher process. If that dies, no sandbox was started, so the
    /// request can be retried on another one.
    async fn clone_guest(
        &self,
        shape: &Shape,
        stream: BorrowedFd<'_>,
    ) -> Result<LaunchedSandbox, LaunchError> {
        let mut retries = 0..self.launchers.len();
        loop {
            match self.next_launcher()?.launch(plan::limits(shape, &self.cgroups), stream).await {
                Err(LaunchError::LauncherGone) if retries.next().is_some() => {}
                launched => return launched,
            }
        }
    }
}

#[async_trait]
impl Launcher for NativeLauncher {
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        if !self.interpreters.0.contains_key(&shape.language) {
            return Err(LaunchError::NoInterpreter(shape.language));
        }
        self.start_guest(shape).await?.require_controls(&self.require).await
    }

    async fn sweep(&self, _owner: &Owner) -> Result<usize, LaunchError> {
        let hierarchy = self.hierarchy.clone();
        // Blocking: the cgroups of killed processes take a moment to become empty.
        tokio::task::spawn_blocking(move || hierarchy.sweep()).await.map_err(|error| {
            LaunchError::Setup { step: "sweep".to_owned(), source: std::io::Error::other(error) }
        })
    }

    async fn probe(&self) -> Result<Isolation, LaunchError> {
        let guest = self.start_guest(&PROBE_SHAPE).await?.require_controls(&self.require).await?;
        let isolation = guest.isolation().clone();
        guest.discard().await;
        Ok(isolation)
    }
}

impl Drop for NativeLauncher {
    fn drop(&mut self) {
        // Dropping a client waits for its launcher to exit; only then are the cgroups empty.
        self.launchers.clear();
        cgroups::release(&self.cgroups);
    }
}

/// Raises this process's limit on open files to the maximum. Every sandbox uses some. Besides, the
/// kernel limits the descriptors in flight through sockets per user, to the sender's limit on open
/// files. Without root, scripts run as the same user and could use up that number, and the launch
/// requests, which pass descriptors, would then fail.
fn raise_open_files_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit on open files could not be raised");
    }
}
