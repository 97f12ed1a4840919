//! The cgroup of a pod, the parent of its containers' cgroups: its process limit and its removal.

use std::fs;
use std::path::{Path, PathBuf};

const MOUNT: &str = "/sys/fs/cgroup";

/// Creates the cgroup of a pod with a process limit, which is a setting of the node, not of the
/// pod.
pub(super) fn make(name: &str, pids: u32) -> std::io::Result<()> {
    let directory = if is_unified() {
        Path::new(MOUNT).join(name)
    } else {
        Path::new(MOUNT).join("pids").join(name)
    };
    fs::create_dir_all(&directory)?;
    if is_unified() {
        // This fails where a controller is missing; then writing the limit fails too.
        let _ = fs::write(Path::new(MOUNT).join("cgroup.subtree_control"), "+pids +memory +cpu");
        let _ = fs::write(directory.join("cgroup.subtree_control"), "+pids +memory +cpu");
    }
    fs::write(directory.join("pids.max"), pids.to_string())
}

/// Removes it from every hierarchy.
pub(super) fn remove(name: &str) {
    for directory in hierarchies() {
        let _ = fs::remove_dir(directory.join(name));
    }
}

/// How often the kernel's OOM killer has killed a process of this cgroup.
pub(super) fn oom_kills(name: &str) -> u64 {
    let name = name.trim_start_matches('/');
    let files = [
        Path::new(MOUNT).join("memory").join(name).join("memory.oom_control"),
        Path::new(MOUNT).join(name).join("memory.events"),
    ];
    let text = files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
    count.unwrap_or(0)
}

fn is_unified() -> bool {
    Path::new(MOUNT).join("cgroup.controllers").exists()
}

fn hierarchies() -> Vec<PathBuf> {
    if is_unified() {
        return vec![MOUNT.into()];
    }
    let entries = fs::read_dir(MOUNT).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
