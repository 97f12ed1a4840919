//! The parent cgroups of this service's sandboxes, and the removal of those that a dead service
//! left.
//!
//! Every service process has a directory of its own, named by its process id and start time, below
//! the cgroup that it runs in itself, so that limits of the service apply to its sandboxes as well.

use super::hierarchy::{CONTROLLERS, Hierarchy, PREFIX, SERVER_LEAF};
use guest::jail::Cgroups;
use rustix::process::{Pid, Signal};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MAX_REMOVE_ATTEMPTS: u32 = 50;
const REMOVE_RETRY_INTERVAL: Duration = Duration::from_millis(20);

impl Hierarchy {
    /// Creates this service's directory in each hierarchy; one that is not writable is left out.
    pub(super) fn claim(&self) -> Cgroups {
        let name = own_name();
        match self {
            Hierarchy::None => Cgroups::None,
            Hierarchy::V1(groups) => {
                let made = groups.iter().filter_map(|(controller, group)| {
                    let directory = group.join(&name);
                    create_directory(&directory).ok()?;
                    Some((*controller, directory.to_string_lossy().into_owned()))
                });
                let directories: Vec<_> = made.collect();
                if directories.is_empty() { Cgroups::None } else { Cgroups::V1 { directories } }
            }
            Hierarchy::V2(group) => claim_v2(group, &name).unwrap_or(Cgroups::None),
        }
    }

    /// Kills and removes the sandboxes of dead services; returns how many there were.
    pub(super) fn sweep(&self) -> usize {
        let groups: Vec<&PathBuf> = match self {
            Hierarchy::None => vec![],
            Hierarchy::V2(group) => vec![group],
            Hierarchy::V1(groups) => groups.iter().map(|(_, group)| group).collect(),
        };
        let swept = groups.into_iter().map(|group| {
            let dead =
                subdirectories(group).into_iter().filter(|directory| !owner_is_alive(directory));
            dead.map(|directory| remove(&directory)).sum()
        });
        // A sandbox has one directory in each v1 hierarchy.
        swept.max().unwrap_or(0)
    }
}

fn claim_v2(group: &Path, name: &str) -> io::Result<Cgroups> {
    let available = fs::read_to_string(group.join("cgroup.controllers"))?;
    let controllers: Vec<_> = CONTROLLERS
        .iter()
        .filter(|(_, name)| available.split_whitespace().any(|a| a == *name))
        .collect();
    let enable =
        controllers.iter().map(|(_, name)| format!("+{name}")).collect::<Vec<_>>().join(" ");
    if fs::write(group.join("cgroup.subtree_control"), &enable).is_err() {
        // EBUSY: this process is in the cgroup itself. Move it to a leaf and retry.
        let leaf = group.join(format!("{name}-{SERVER_LEAF}"));
        create_directory(&leaf)?;
        fs::write(leaf.join("cgroup.procs"), "0")?;
        fs::write(group.join("cgroup.subtree_control"), &enable)?;
    }
    let directory = group.join(name);
    create_directory(&directory)?;
    fs::write(directory.join("cgroup.subtree_control"), &enable)?;
    let controllers = controllers.iter().map(|(controller, _)| *controller).collect();
    Ok(Cgroups::V2 { directory: directory.to_string_lossy().into_owned(), controllers })
}

/// Removes this service's directories. One that is still in use is left to a later sweep.
pub(super) fn release(cgroups: &Cgroups) {
    for directory in own(cgroups) {
        remove(directory);
    }
}

/// Removes the sandbox cgroups of a launcher process that has exited. Their names start with its
/// id.
pub(super) fn remove_launcher_cgroups(cgroups: &Cgroups, launcher: u32) {
    let prefix = format!("{launcher}-");
    let of_launcher = |group: &PathBuf| {
        group
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(&prefix))
    };
    for directory in own(cgroups) {
        subdirectories(directory).iter().filter(|group| of_launcher(group)).for_each(|group| {
            remove(group);
        });
    }
}

/// This service's directories.
fn own(cgroups: &Cgroups) -> Vec<&Path> {
    match cgroups {
        Cgroups::None => vec![],
        Cgroups::V2 { directory, .. } => vec![Path::new(directory)],
        Cgroups::V1 { directories } => {
            directories.iter().map(|(_, directory)| Path::new(directory)).collect()
        }
    }
}

/// The name of this service's directory: unique among live processes, and identifying its owner.
fn own_name() -> String {
    let pid = std::process::id();
    // One process may have several launchers, as in tests.
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("{PREFIX}{pid}-{}-{count}", start_time(pid).unwrap_or(0))
}

/// When a process started, in clock ticks since boot.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name, in parentheses, may contain any character, so the fields after it are used.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn owner_is_alive(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut parts = name.strip_prefix(PREFIX).unwrap_or_default().split('-');
    let mut number = || parts.next()?.parse::<u64>().ok();
    match (number(), number()) {
        (Some(pid), Some(started)) => start_time(pid as u32) == Some(started),
        // Not a directory of ours, so it must not be removed.
        _ => true,
    }
}

fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn create_directory(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Kills all processes in a cgroup and removes it and its children; returns the number of children.
fn remove(directory: &Path) -> usize {
    let below = subdirectories(directory);
    let count = below.len();
    below.iter().for_each(|child| {
        remove(child);
    });
    // Killed processes leave the cgroup with a delay, and new ones may appear until all are dead.
    for _ in 0..MAX_REMOVE_ATTEMPTS {
        let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        for pid in processes.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        match fs::remove_dir(directory) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(REMOVE_RETRY_INTERVAL);
            }
            _ => break,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_alive_only_with_the_same_start_time() {
        let own = own_name();
        assert!(owner_is_alive(Path::new(&own)));
        assert!(!owner_is_alive(Path::new(&format!("{PREFIX}{}-1-0", std::process::id()))));
        assert!(owner_is_alive(Path::new("unrelated-cgroup")));
    }
}
