//! Processes, cgroups and mounts of one server, inspected from outside, also after its end.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use guest::jail::UID_BASE;

/// Timeout for the removal of leftovers after a restart.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(15);

/// A process. Its start time distinguishes it from a later process with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: u32,
    pub name: String,
    parent: u32,
    started: u64,
    user: u32,
    /// Its lines of `/proc/…/cgroup`.
    groups: String,
}

/// The processes of a server at one moment, and the mounts from before the test.
pub(crate) struct ServerLeftovers {
    server: u32,
    processes: Vec<Process>,
    mounts: BTreeSet<String>,
}

impl ServerLeftovers {
    /// Must be called while the server runs. `mounts` are those from before its start.
    pub(crate) fn record(server: u32, mounts: &BTreeSet<String>) -> Self {
        let processes = descendants(server);
        assert!(!processes.is_empty(), "a server has launchers");
        ServerLeftovers { server, processes, mounts: mounts.clone() }
    }

    /// Waits until nothing of the server is left. Another server must be running on its data directory,
    /// because the restart removes leftovers.
    pub(crate) async fn wait_until_removed(&self) {
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        loop {
            let remaining = self.remaining();
            if remaining.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left on the machine: {remaining:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn remaining(&self) -> Vec<String> {
        let alive = processes();
        let own = cgroup_prefix(self.server);
        let is_recorded = |process: &&Process| {
            self.processes
                .iter()
                .any(|old| (old.pid, old.started) == (process.pid, process.started))
        };
        let of_server =
            alive.iter().filter(|process| is_recorded(process) || process.groups.contains(&own));
        let stray =
            alive.iter().filter(|process| process.user >= UID_BASE && !has_server(process, &alive));
        let mut remaining: Vec<String> =
            of_server.chain(stray).map(|process| format!("{process:?}")).collect();
        remaining.extend(cgroups(&own).into_iter().map(|path| path.display().to_string()));
        remaining.extend(mounts().difference(&self.mounts).map(|mount| format!("mount {mount}")));
        remaining
    }
}

/// Whether this user can identify the cgroups and the users of sandboxes.
pub(crate) fn can_inspect_all_processes() -> bool {
    rustix::process::geteuid().is_root()
}

/// The mounts of the host, from where the tests stand; all but those of the containers and pods of
/// other tests.
pub(crate) fn mounts() -> BTreeSet<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").expect("the mounts");
    let theirs = [" - overlay ", "/netns/", "/containers/", "/kubelet/", "/pods/", "/engine/data "];
    let of_others = |line: &&str| theirs.iter().any(|part| line.contains(part));
    all.lines().filter(|line| !of_others(line)).map(str::to_owned).collect()
}

/// Every process below this one.
pub(crate) fn descendants(root: u32) -> Vec<Process> {
    let all = processes();
    let descends = |process: &&Process| {
        let mut parent = process.parent;
        while let Some(next) = all.iter().find(|other| other.pid == parent && parent != root) {
            parent = next.parent;
        }
        parent == root
    };
    all.iter().filter(descends).cloned().collect()
}

/// The launcher processes of a server.
pub(crate) fn launchers(server: u32) -> Vec<Process> {
    let is_launcher = |process: &Process| {
        let command = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        process.parent == server && command.starts_with(b"skillbox-launcher\0")
    };
    processes().into_iter().filter(is_launcher).collect()
}

/// The cgroup directories of a server, or of one of its launchers, that exist now.
pub(crate) fn cgroups(prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut look_in = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = look_in.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.extend(
                    entry.file_name().to_string_lossy().starts_with(prefix).then(|| entry.path()),
                );
                look_in.push(entry.path());
            }
        }
    }
    found
}

/// What the names of a server's cgroups start with.
pub(crate) fn cgroup_prefix(server: u32) -> String {
    format!("skillbox-{server}-")
}

/// All processes except zombies: those of a killed server are reaped by the init process.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("the processes").flatten();
    entries
        .filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?, &entry.path()))
        .collect()
}

/// Whether a process is in a cgroup of a running server. Servers of other tests are ignored.
fn has_server(process: &Process, alive: &[Process]) -> bool {
    let names = process.groups.split(['/', '\n']).filter_map(|part| part.strip_prefix("skillbox-"));
    names
        .filter_map(|name| name.split('-').next()?.parse().ok())
        .any(|pid: u32| alive.iter().any(|p| p.pid == pid))
}

impl Process {
    /// `None` if the process is dead or ends during the read.
    fn read(pid: u32, path: &Path) -> Option<Process> {
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        // The name, in parentheses, may contain any character, including parentheses and spaces.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        if matches!(fields[0], "Z" | "X") {
            return None;
        }
        Some(Process {
            pid,
            name: name.to_owned(),
            parent: fields[1].parse().ok()?,
            started: fields[19].parse().ok()?,
            user: user(&fs::read_to_string(path.join("status")).ok()?)?,
            groups: fs::read_to_string(path.join("cgroup")).ok()?,
        })
    }
}

/// Reads the user from the status. The owner of `/proc/…` is root for a process that is not dumpable.
fn user(status: &str) -> Option<u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())
}
