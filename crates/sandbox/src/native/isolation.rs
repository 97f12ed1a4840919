//! The isolation of native sandboxes.

use super::NativeLauncher;
use super::plan;
use crate::isolation::{Control, Isolation};
use crate::launcher::Shape;
use guest::jail::{CgroupController, EnforcedLimits, SandboxNetwork};
use guest::protocol::Measurements;
use std::collections::BTreeMap;

impl NativeLauncher {
    /// The controls in force: the guest's own measurements and the limits of its cgroup.
    pub fn isolation(
        &self,
        measured: &Measurements<'_>,
        enforced: &EnforcedLimits,
        shape: &Shape,
    ) -> Isolation {
        let mut controls = BTreeMap::new();
        let mut set = |control, in_force: bool, how: &str| {
            if in_force {
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
        // In a user namespace of its own, the rlimit on processes counts only this sandbox.
        let by_rlimit = !plan::has_controller(&self.cgroups, CgroupController::Pids);
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

/// The inodes of this process's namespaces.
pub(super) fn own_namespaces() -> BTreeMap<String, u64> {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir("/proc/self/ns").into_iter().flatten().flatten();
    let inode = |entry: &std::fs::DirEntry| {
        std::fs::metadata(entry.path()).ok().map(|metadata| metadata.ino())
    };
    entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, inode(&entry)?)))
        .collect()
}
