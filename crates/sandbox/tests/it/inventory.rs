//! What is on the machine because of this test process, counted from outside of every sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use guest::jail::UID_BASE;

/// Processes, cgroups, mounts and files. Other programs on the machine do not count, so two of these can be compared.
#[derive(Debug, PartialEq, Eq)]
pub struct Inventory {
    pub processes: BTreeMap<u32, String>,
    pub cgroups: BTreeSet<PathBuf>,
    pub mounts: BTreeSet<String>,
    pub directories: BTreeSet<PathBuf>,
}

impl Inventory {
    pub fn take() -> Self {
        Inventory {
            processes: processes(),
            cgroups: cgroups(),
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap().lines().map(str::to_owned).collect(),
            directories: directories(),
        }
    }
}

/// What the cgroups of launchers in this process are called.
fn own_prefix() -> String {
    format!("skillbox-{}-", std::process::id())
}

/// Every process that descends from this one or is in one of its cgroups, dead ones that nobody reaped included.
fn processes() -> BTreeMap<u32, String> {
    let mut all: BTreeMap<u32, (u32, String)> = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end while we look.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((name, rest)) = stat.rsplit_once(')') else { continue };
        let Some(parent) = rest.split_whitespace().nth(1).and_then(|parent| parent.parse().ok()) else { continue };
        let groups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        let ours = groups.contains(&own_prefix());
        all.insert(pid, (if ours { std::process::id() } else { parent }, name.to_owned()));
    }
    let descends = |mut pid: u32| {
        while let Some((parent, _)) = all.get(&pid) {
            if *parent == std::process::id() {
                return true;
            }
            pid = *parent;
        }
        false
    };
    all.iter().filter(|(pid, _)| descends(**pid)).map(|(pid, (_, name))| (*pid, name.clone())).collect()
}

/// Every directory below a mounted cgroup hierarchy that a launcher of this process made.
fn cgroups() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut look_in = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = look_in.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                look_in.push(entry.path());
                if entry.path().iter().any(|part| part.to_str().is_some_and(|part| part.starts_with(&own_prefix()))) {
                    found.insert(entry.path());
                }
            }
        }
    }
    found
}

/// What belongs to a user that only exists in sandboxes, in the places where programs leave things.
fn directories() -> BTreeSet<PathBuf> {
    let places = [std::env::temp_dir(), "/var/tmp".into(), "/dev/shm".into(), "/run".into()];
    let entries = places.iter().flat_map(|place: &PathBuf| fs::read_dir(place).into_iter().flatten().flatten());
    let of_a_sandbox = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.uid() >= UID_BASE);
    entries.map(|entry| entry.path()).filter(of_a_sandbox).collect()
}
