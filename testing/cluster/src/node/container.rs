//! One container of `runc`, from its bundle to its removal.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio::sync::{Mutex, watch};
use tokio_util::task::TaskTracker;

use super::cgroup;
use super::streams::OutputBroadcast;
use super::volumes::PodVolumes;

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerExit {
    pub code: i32,
    pub out_of_memory: bool,
    /// Why it was never started.
    pub not_started: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunState {
    Starting,
    /// With the PID of its first process on this machine.
    Running(i32),
    Ended(ContainerExit),
}

pub(crate) struct RuncContainer {
    pub id: String,
    pub streams: OutputBroadcast,
    /// Its standard input, if it has one. Taken when a client that attached with `stdinOnce`
    /// disconnects.
    pub stdin: Mutex<Option<ChildStdin>>,
    state: watch::Sender<RunState>,
}

/// The parameters of a start.
pub(crate) struct ContainerStart<'a> {
    pub id: String,
    pub config: Value,
    /// A directory for this container only.
    pub bundle: PathBuf,
    /// The state directory of `runc`.
    pub root: &'a Path,
    pub cgroup: String,
    pub stdin: bool,
}

impl RuncContainer {
    /// Starts a container. Its streams and its end are handled by tasks in `tasks`.
    pub(crate) async fn start(
        start: ContainerStart<'_>,
        volumes: &PodVolumes,
        tasks: &TaskTracker,
    ) -> io::Result<std::sync::Arc<RuncContainer>> {
        make_root(&start.bundle).await?;
        tokio::fs::write(start.bundle.join("config.json"), start.config.to_string()).await?;
        let (log, pid_file) = (start.bundle.join("log"), start.bundle.join("pid"));
        let mut command = volumes.command("runc");
        command.arg("--root").arg(start.root).arg("--log").arg(&log);
        command
            .args(["run", "--keep", "--pid-file"])
            .arg(&pid_file)
            .arg("--bundle")
            .arg(&start.bundle);
        command.arg(&start.id).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if start.stdin { Stdio::piped() } else { Stdio::null() });
        // Its own process group, so that Ctrl-C in a terminal does not reach the container.
        let mut child = command.process_group(0).spawn()?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let container = std::sync::Arc::new(RuncContainer {
            id: start.id.clone(),
            streams: OutputBroadcast::new(),
            stdin: Mutex::new(child.stdin.take()),
            state: watch::Sender::new(RunState::Starting),
        });
        let (watched, root) = (container.clone(), start.root.to_owned());
        tasks.spawn(async move {
            let pumped = async {
                if let Some((stdout, stderr)) = pipes {
                    watched.streams.pump(stdout, stderr).await;
                }
            };
            let waited = async {
                let started = watched.note_start(&pid_file);
                tokio::select! {
                    status = child.wait() => status,
                    () = started => child.wait().await,
                }
            };
            let (status, ()) = tokio::join!(waited, pumped);
            let code = status.ok().and_then(|status| status.code()).unwrap_or(128);
            let out_of_memory = cgroup::oom_kills(&start.cgroup) > 0;
            // A short-lived container may have ended before `note_start` saw its PID file.
            let lived = pid_file.exists();
            remove(&root, &watched.id).await;
            let log = tokio::fs::read_to_string(&log).await.unwrap_or_default();
            let not_started = (!lived)
                .then(|| log.lines().last().unwrap_or("it could not be started").to_owned());
            let code = if lived { code } else { 128 };
            watched.state.send_replace(RunState::Ended(ContainerExit {
                code,
                out_of_memory,
                not_started,
            }));
        });
        Ok(container)
    }

    pub(crate) fn state(&self) -> watch::Receiver<RunState> {
        self.state.subscribe()
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(*self.state.borrow(), RunState::Running(_))
    }

    /// Waits until it has started or ended.
    pub(crate) async fn started(&self) {
        let _ = self.state().wait_for(|state| *state != RunState::Starting).await;
    }

    pub(crate) async fn ended(&self) -> ContainerExit {
        let mut state = self.state();
        let ended = state.wait_for(|state| matches!(state, RunState::Ended(_))).await;
        match ended.map(|state| state.clone()) {
            Ok(RunState::Ended(exit)) => exit,
            _ => ContainerExit { code: 137, out_of_memory: false, not_started: None },
        }
    }

    /// Writes to its standard input; false when that is closed.
    pub(crate) async fn write(&self, bytes: &[u8]) -> bool {
        match self.stdin.lock().await.as_mut() {
            Some(stdin) => stdin.write_all(bytes).await.is_ok() && stdin.flush().await.is_ok(),
            None => false,
        }
    }

    /// Sends SIGTERM to its first process, and SIGKILL after the grace period.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.started().await;
        if !grace.is_zero() {
            self.signal(Signal::TERM);
            if tokio::time::timeout(grace, self.ended()).await.is_ok() {
                return;
            }
        }
        self.signal(Signal::KILL);
        self.ended().await;
    }

    fn signal(&self, signal: Signal) {
        if let RunState::Running(pid) = *self.state.borrow()
            && let Some(pid) = Pid::from_raw(pid)
        {
            // An error means that the process has ended already.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Waits for the PID file, which `runc` writes when the first process runs.
    async fn note_start(&self, pid_file: &Path) {
        loop {
            let pid = tokio::fs::read_to_string(pid_file)
                .await
                .ok()
                .and_then(|text| text.trim().parse().ok());
            if let Some(pid) = pid {
                self.state.send_replace(RunState::Running(pid));
                return;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
}

async fn remove(root: &Path, id: &str) {
    let mut command = Command::new("runc");
    command.arg("--root").arg(root).args(["delete", "--force", id]);
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status().await;
}

/// Creates the files of an image's root that are not mounted later.
async fn make_root(bundle: &Path) -> io::Result<()> {
    let root = bundle.join("rootfs");
    tokio::fs::create_dir_all(root.join("etc")).await?;
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        if let Ok(target) = tokio::fs::read_link(Path::new("/").join(name)).await {
            tokio::fs::symlink(target, root.join(name)).await?;
        }
    }
    for (name, contents) in [
        (
            "passwd",
            "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        ),
        ("group", "root:x:0:\nnogroup:x:65534:\n"),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ] {
        tokio::fs::write(root.join("etc").join(name), contents).await?;
    }
    // The paths of the skill contract are created by volume mounts; an image has only the usual
    // ones.
    tokio::fs::create_dir_all(root.join("tmp")).await
}
