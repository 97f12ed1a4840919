//! The native sandbox: the kernel's own namespaces, cgroups, Landlock and seccomp, on one Linux
//! machine.

mod cgroups;
pub mod doctor;
mod interpreters;
mod plan;
mod process;

use crate::guest::Guest;
use crate::isolation::{Control, Isolation};
use crate::launcher::{LaunchError, Launcher, Owner, Shape};
use crate::network::HostNetworkPermit;
use async_trait::async_trait;
use cgroups::Hierarchy;
use guest::jail::{CgroupController, Cgroups, EnforcedLimits, SandboxNetwork, SandboxPlan};
use guest::protocol::Measurements;
use interpreters::Interpreters;
use language::Language;
use plan::HostRoot;
use process::{Launched, Process};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a guest may take to say that it is ready, on a machine under load.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The smallest sandbox that can say what holds in it.
const PROBE: Shape = Shape {
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
    /// Launcher processes; one a core is right.
    pub processes: usize,
    /// Controls without which nothing runs.
    pub require: Vec<Control>,
    /// Where interpreters are looked for; the usual directories when `None`.
    pub search_path: Option<OsString>,
}

/// Makes sandboxes on this machine.
pub struct NativeLauncher {
    require: Vec<Control>,
    interpreters: Interpreters,
    plan: SandboxPlan,
    hierarchy: Hierarchy,
    cgroups: Cgroups,
    network: SandboxNetwork,
    /// The namespaces of this process, which no sandbox may share.
    namespaces: BTreeMap<String, u64>,
    processes: Vec<Mutex<Arc<Process>>>,
    next: AtomicUsize,
}

impl NativeLauncher {
    /// Finds out what this machine has and starts the launcher processes.
    pub fn start(config: NativeConfig) -> Result<NativeLauncher, LaunchError> {
        NativeLauncher::start_with(config, SandboxNetwork::Own)
    }

    /// The same, of sandboxes that see the whole network of this machine.
    pub fn start_on_host_network(
        config: NativeConfig,
        _: HostNetworkPermit,
    ) -> Result<NativeLauncher, LaunchError> {
        NativeLauncher::start_with(config, SandboxNetwork::Host)
    }

    /// For tests that show an attack to succeed without this defence.
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
        allow_many_descriptors();
        let hierarchy = Hierarchy::find();
        let cgroups = hierarchy.claim();
        let start = || {
            Process::start(&cgroups, network, &plan).map(|process| Mutex::new(Arc::new(process)))
        };
        let processes = (0..config.processes.max(1)).map(|_| start()).collect::<Result<_, _>>()?;
        Ok(NativeLauncher {
            require: config.require,
            interpreters,
            plan,
            hierarchy,
            cgroups,
            network,
            namespaces: own_namespaces(),
            processes,
            next: AtomicUsize::new(0),
        })
    }

    /// The next launcher process in turn, started anew if it died.
    fn process(&self) -> Result<Arc<Process>, LaunchError> {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.processes.len();
        let mut process = self.processes[index].lock().unwrap_or_else(PoisonError::into_inner);
        if !process.is_alive() {
            tracing::warn!("a launcher process died; starting another");
            *process = Arc::new(Process::start(&self.cgroups, self.network, &self.plan)?);
        }
        Ok(Arc::clone(&process))
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
            Guest::connect(ours, Box::new(launched.handle), shape.clone(), READY_WITHIN, describe)
                .await?;
        Ok(guest)
    }

    /// Asks a launcher process; another one when it dies over the request, for then nothing has
    /// been started.
    async fn clone_guest(
        &self,
        shape: &Shape,
        stream: BorrowedFd<'_>,
    ) -> Result<Launched, LaunchError> {
        let mut attempts = 0..self.processes.len();
        loop {
            match self.process()?.launch(plan::limits(shape, &self.cgroups), stream).await {
                Err(LaunchError::LauncherGone) if attempts.next().is_some() => {}
                launched => return launched,
            }
        }
    }

    /// What holds in a sandbox: what its guest saw before any job came, and what its cgroup was set
    /// to.
    fn isolation(
        &self,
        measured: &Measurements<'_>,
        enforced: &EnforcedLimits,
        shape: &Shape,
    ) -> Isolation {
        let mut controls = BTreeMap::new();
        let mut set = |control, holds: bool, how: &str| {
            if holds {
                controls.insert(control, how.to_owned());
            }
        };
        let own = |name: &str| {
            let inside =
                measured.namespaces.iter().find(|(n, _)| *n == name).map(|(_, inode)| *inode);
            inside.is_some() && inside != self.namespaces.get(name).copied()
        };
        set(Control::UserNamespace, own("user"), "own");
        set(Control::MountNamespace, own("mnt"), "own");
        set(Control::PidNamespace, own("pid"), "own");
        set(Control::NetworkNamespace, own("net"), "own, loopback only");
        set(Control::IpcNamespace, own("ipc"), "own");
        set(Control::UtsNamespace, own("uts"), "own");
        set(Control::CgroupNamespace, own("cgroup"), "own");
        set(Control::NoNewPrivileges, measured.no_new_privileges, "set");
        set(Control::Capabilities, measured.capabilities == 0, "none");
        set(Control::Seccomp, measured.seccomp == 2, "filter");
        set(
            Control::Landlock,
            measured.landlock.is_some(),
            &format!("abi {}", measured.landlock.unwrap_or(0)),
        );
        set(Control::ReadOnlyRoot, measured.root_read_only, "tmpfs with read-only binds");
        set(
            Control::DiskLimit,
            measured.scratch_bytes > 0 && measured.scratch_bytes <= shape.disk_bytes,
            "tmpfs",
        );
        let cgroup = self.hierarchy.name();
        set(Control::MemoryLimit, enforced.memory, cgroup);
        set(Control::SwapLimit, enforced.swap, cgroup);
        set(Control::CpuLimit, enforced.cpu, cgroup);
        // In a user namespace of its own the process rlimit counts this sandbox alone.
        let by_rlimit = !plan::has(&self.cgroups, CgroupController::Pids);
        set(
            Control::ProcessLimit,
            enforced.pids || by_rlimit,
            if by_rlimit { "rlimit" } else { cgroup },
        );
        set(Control::UniqueUid, enforced.unique_uid, "per run");
        set(Control::PrivateInodes, measured.private_inodes, "overlay");
        let network = if own("net") { SandboxNetwork::Own } else { SandboxNetwork::Host };
        Isolation { backend: "native", runtime: None, image: None, network, controls }
    }
}

#[async_trait]
impl Launcher for NativeLauncher {
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        if !self.interpreters.0.contains_key(&shape.language) {
            return Err(LaunchError::NoInterpreter(shape.language));
        }
        self.start_guest(shape).await?.holding(&self.require).await
    }

    async fn sweep(&self, _owner: &Owner) -> Result<usize, LaunchError> {
        let hierarchy = self.hierarchy.clone();
        // Cgroups of the dead may take a moment to empty.
        tokio::task::spawn_blocking(move || hierarchy.sweep()).await.map_err(|error| {
            LaunchError::Setup { step: "sweep".to_owned(), source: std::io::Error::other(error) }
        })
    }

    async fn probe(&self) -> Result<Isolation, LaunchError> {
        let guest = self.start_guest(&PROBE).await?.holding(&self.require).await?;
        let isolation = guest.isolation().clone();
        guest.discard().await;
        Ok(isolation)
    }
}

impl Drop for NativeLauncher {
    fn drop(&mut self) {
        // Each process waits for its launcher to end; only then are the cgroups empty.
        self.processes.clear();
        cgroups::release(&self.cgroups);
    }
}

/// Raises this process's limit on open files as far as it may. Every sandbox takes some; and
/// without root, scripts could otherwise use up what all processes of this user together may have
/// on the way through sockets, as many as the limit of whoever sends the next one, and sandboxes
/// are asked for in that way.
fn allow_many_descriptors() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit on open files stays low");
    }
}

fn own_namespaces() -> BTreeMap<String, u64> {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir("/proc/self/ns").into_iter().flatten().flatten();
    let inode = |entry: &std::fs::DirEntry| {
        std::fs::metadata(entry.path()).ok().map(|metadata| metadata.ino())
    };
    entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, inode(&entry)?)))
        .collect()
}
