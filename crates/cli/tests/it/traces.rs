//! What is on the machine because of one server, looked for from outside of it and also after its
//! death.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use guest::jail::UID_BASE;

/// How long after a restart something may still be on its way out.
const LEAVING: Duration = Duration::from_secs(15);

/// A process, told from a later one with the same id by its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub name: String,
    parent: u32,
    started: u64,
    user: u32,
    /// Its lines of `/proc/…/cgroup`.
    groups: String,
}

/// What a server had on the machine at one moment, and what was there before any server of the
/// test.
pub struct Traces {
    server: u32,
    processes: Vec<Process>,
    mounts: BTreeSet<String>,
}

impl Traces {
    /// Call it while the server lives; `mounts` are those from before its start.
    pub fn of(server: u32, mounts: &BTreeSet<String>) -> Self {
        let processes = descendants(server);
        assert!(!processes.is_empty(), "a server has launchers");
        Traces { server, processes, mounts: mounts.clone() }
    }

    /// Waits until nothing is left of it. A server must be running on its data directory by then.
    pub async fn gone(&self) {
        let deadline = Instant::now() + LEAVING;
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left on the machine: {left:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn left(&self) -> Vec<String> {
        let alive = processes();
        let own = cgroup_prefix(self.server);
        let known = |process: &&Process| {
            self.processes
                .iter()
                .any(|old| (old.pid, old.started) == (process.pid, process.started))
        };
        let ours = alive.iter().filter(|process| known(process) || process.groups.contains(&own));
        let stray =
            alive.iter().filter(|process| process.user >= UID_BASE && !has_server(process, &alive));
        let mut left: Vec<String> =
            ours.chain(stray).map(|process| format!("{process:?}")).collect();
        left.extend(cgroups(&own).into_iter().map(|path| path.display().to_string()));
        left.extend(mounts().difference(&self.mounts).map(|mount| format!("mount {mount}")));
        left
    }
}

/// Whether the cgroups and the users of sandboxes can be told apart from others here.
pub fn sees_all() -> bool {
    rustix::process::geteuid().is_root()
}

/// The mounts of the host, from where the tests stand; all but those of the containers and pods of
/// other tests.
pub fn mounts() -> BTreeSet<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").expect("the mounts");
    let theirs = [" - overlay ", "/netns/", "/containers/", "/kubelet/", "/pods/", "/engine/data "];
    let of_others = |line: &&str| theirs.iter().any(|part| line.contains(part));
    all.lines().filter(|line| !of_others(line)).map(str::to_owned).collect()
}

/// Every process below this one.
pub fn descendants(root: u32) -> Vec<Process> {
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
pub fn launchers(server: u32) -> Vec<Process> {
    let is_launcher = |process: &Process| {
        let command = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        process.parent == server && command.starts_with(b"skillbox-launcher\0")
    };
    processes().into_iter().filter(is_launcher).collect()
}

/// The cgroup directories of a server, or of one of its launchers, that exist now.
pub fn cgroups(prefix: &str) -> Vec<PathBuf> {
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
pub fn cgroup_prefix(server: u32) -> String {
    format!("skillbox-{server}-")
}

/// Every process that is not a corpse: those of a killed server are for the machine's first process
/// to bury.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("the processes").flatten();
    entries
        .filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?, &entry.path()))
        .collect()
}

/// Whether a process is in a cgroup whose server lives. Other tests' servers are none of this
/// test's business.
fn has_server(process: &Process, alive: &[Process]) -> bool {
    let names = process.groups.split(['/', '\n']).filter_map(|part| part.strip_prefix("skillbox-"));
    names
        .filter_map(|name| name.split('-').next()?.parse().ok())
        .any(|pid: u32| alive.iter().any(|p| p.pid == pid))
}

impl Process {
    /// None when it is dead, or ends while we look.
    fn read(pid: u32, path: &Path) -> Option<Process> {
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        // The name, in parentheses, may hold anything; what follows it does not.
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

/// The owner of `/proc/…` will not do: of a process that may not be dumped it is root.
fn user(status: &str) -> Option<u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())
}
