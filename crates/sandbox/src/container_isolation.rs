//! The isolation of a container, from what its guest measured and what its backend knows.

use std::collections::BTreeMap;

use guest::jail::SandboxNetwork;
use guest::protocol::{MeasuredCgroup, Measurements};

use crate::isolation::{Control, Isolation};
use crate::launcher::Shape;

/// The initial namespaces of a machine have these inode numbers in every kernel. A process that
/// sees one of them has no own namespace of that kind.
const INITIAL_NAMESPACE_INODES: [(&str, u64); 5] = [
    ("cgroup", 0xefff_fffb),
    ("pid", 0xefff_fffc),
    ("user", 0xefff_fffd),
    ("uts", 0xefff_fffe),
    ("ipc", 0xefff_ffff),
];

/// The facts about a container that its guest cannot measure.
pub(crate) struct ContainerContext<'a> {
    pub backend: &'static str,
    pub runtime: Option<&'a str>,
    pub image: &'a str,
    pub network: SandboxNetwork,
    /// How it is isolated from every network, if it is.
    pub network_isolation: Option<&'static str>,
    /// The owner of the cgroup with its limits, reported where the guest cannot read one.
    pub limits_enforced_by: &'static str,
}

/// The controls in force, as the guest measured them before it received any job.
pub(crate) fn measured_isolation(
    measured: &Measurements<'_>,
    shape: &Shape,
    context: &ContainerContext<'_>,
) -> Isolation {
    let mut controls = BTreeMap::new();
    let mut set = |control, holds: bool, how: &str| {
        if holds {
            controls.insert(control, how.to_owned());
        }
    };
    let gvisor = measured.gvisor;
    let has_own = |name: &str| {
        let initial =
            INITIAL_NAMESPACE_INODES.iter().find(|(n, _)| *n == name).map(|(_, inode)| *inode);
        // gVisor's kernel numbers its namespaces itself, so the comparison means nothing there.
        gvisor || measured.namespaces.iter().any(|(n, inode)| *n == name && Some(*inode) != initial)
    };
    let by = |how: &'static str| if gvisor { "gvisor" } else { how };
    // Under gVisor the guest sees the user namespace that gVisor runs in, not one of the container.
    set(Control::UserNamespace, has_own("user") && !gvisor, "own");
    set(Control::MountNamespace, has_own("mnt"), by("own"));
    set(Control::PidNamespace, has_own("pid"), by("own"));
    set(
        Control::NetworkNamespace,
        context.network_isolation.is_some() && has_own("net"),
        by(context.network_isolation.unwrap_or_default()),
    );
    set(Control::IpcNamespace, has_own("ipc"), by("own"));
    set(Control::UtsNamespace, has_own("uts"), by("own"));
    set(Control::CgroupNamespace, has_own("cgroup"), by("own"));
    set(Control::NoNewPrivileges, measured.no_new_privileges, by("set"));
    set(Control::Capabilities, measured.capabilities == 0, by("none"));
    set(
        Control::Seccomp,
        measured.seccomp == 2,
        if gvisor { "filter, before gvisor's kernel" } else { "filter" },
    );
    set(
        Control::Landlock,
        measured.landlock.is_some(),
        &format!("abi {}", measured.landlock.unwrap_or(0)),
    );
    set(Control::ReadOnlyRoot, measured.root_read_only, "read-only image");
    set(
        Control::DiskLimit,
        measured.scratch_bytes > 0 && measured.scratch_bytes <= shape.disk_bytes,
        "tmpfs",
    );
    set(Control::PrivateInodes, measured.private_inodes, by("overlay"));
    record_limits(&mut set, measured.cgroup, shape, (context.limits_enforced_by, gvisor));
    Isolation {
        backend: context.backend,
        runtime: context.runtime.map(str::to_owned),
        image: Some(context.image.to_owned()),
        network: context.network,
        controls,
    }
}

/// The guest reads the limits of its own cgroup. Where it sees none, as under gVisor, the report
/// relies on the component that created the cgroup. Where no cgroup limits the number of processes,
/// the guest counts them itself.
fn record_limits(
    set: &mut impl FnMut(Control, bool, &str),
    cgroup: Option<MeasuredCgroup>,
    shape: &Shape,
    (limits_enforced_by, gvisor): (&str, bool),
) {
    const GUEST_POLLING: &str = "guest, every 4 ms";
    let Some(cgroup) = cgroup else {
        let how = if gvisor {
            format!("{limits_enforced_by} around gvisor")
        } else {
            limits_enforced_by.to_owned()
        };
        set(Control::MemoryLimit, true, &how);
        set(Control::CpuLimit, true, &how);
        return set(Control::ProcessLimit, true, GUEST_POLLING);
    };
    let how = if cgroup.version == 2 { "cgroup v2" } else { "cgroup v1" };
    let pids_limited = cgroup.pids.is_some_and(|pids| pids <= u64::from(shape.pids));
    set(
        Control::MemoryLimit,
        cgroup.memory_bytes.is_some_and(|bytes| bytes <= shape.memory_bytes),
        how,
    );
    set(Control::SwapLimit, cgroup.no_swap, how);
    set(
        Control::CpuLimit,
        cgroup.cpu_millis.is_some_and(|millis| millis <= u64::from(shape.cpu_millis)),
        how,
    );
    set(Control::ProcessLimit, true, if pids_limited { how } else { GUEST_POLLING });
}
