//! What all containers have in common, whoever makes them: who they run as, where their guest is,
//! how it confines itself further, and what holds in them.

use std::collections::BTreeMap;
use std::io;

use guest::frame::{self, MAX_TO_GUEST};
use guest::jail::{SandboxNetwork, ScratchLimits};
use guest::protocol::{Confinement, MeasuredCgroup, Measurements, ToGuest};
use language::Language;

use crate::isolation::{Control, Isolation};
use crate::launcher::{LaunchError, Shape};
use crate::{policy, seccomp};

/// Nobody: the owner of nothing in any image.
pub const USER: u32 = 65534;

/// Where the guest's volume is mounted.
pub const GUEST_DIRECTORY: &str = "/skillbox";

/// The program in that volume.
pub const GUEST_PROGRAM: &str = "/skillbox/skillbox-guest";

pub const OWNER_LABEL: &str = "skillbox.owner";
/// Seconds since 1970 after which nobody can still want the container.
pub const LEASE_LABEL: &str = "skillbox.lease";
pub const VERSION_LABEL: &str = "skillbox.version";

/// The smallest sandbox that can say what holds in it.
pub const PROBE: Shape = Shape {
    language: Language::Bash,
    image: None,
    memory_bytes: 64 << 20,
    cpu_millis: 1000,
    pids: 64,
    disk_bytes: 1 << 20,
    disk_inodes: 64,
};

/// The namespaces that a machine starts with have these numbers in every kernel. Whoever has them
/// has no own one.
const FIRST: [(&str, u64); 5] = [
    ("cgroup", 0xefff_fffb),
    ("pid", 0xefff_fffc),
    ("user", 0xefff_fffd),
    ("uts", 0xefff_fffe),
    ("ipc", 0xefff_ffff),
];

/// The first thing said to a guest in a container: the walls it puts up itself, inside of those
/// that it was made with.
pub fn confinement(shape: &Shape, filter: Vec<u8>) -> Confinement {
    Confinement {
        rlimits: policy::rlimits(shape),
        landlock: policy::landlock(),
        seccomp: filter,
        witness: seccomp::witness(),
        no_locks: seccomp::no_locks(),
        own_inodes: true,
        scratch: ScratchLimits { bytes: shape.disk_bytes, inodes: shape.disk_inodes },
        processes: shape.pids,
    }
}

/// The same as it is sent.
pub fn encode(confine: Confinement) -> Result<Vec<u8>, LaunchError> {
    let mut bytes = Vec::new();
    frame::encode(&ToGuest::Confine(confine), MAX_TO_GUEST, &mut bytes).map_err(|error| {
        LaunchError::Setup { step: "encode".to_owned(), source: io::Error::other(error) }
    })?;
    Ok(bytes)
}

/// What is known of a container beside what its guest measures.
pub struct Around<'a> {
    pub backend: &'static str,
    pub runtime: Option<&'a str>,
    pub image: &'a str,
    pub network: SandboxNetwork,
    /// How it is kept from every network, if it is.
    pub closed: Option<&'static str>,
    /// Whose control group holds its limits, where the guest cannot see one.
    pub keeper: &'static str,
}

/// What holds: what the guest saw before any job came, and what was compared with what was asked
/// for.
pub fn isolation(measured: &Measurements<'_>, shape: &Shape, around: &Around<'_>) -> Isolation {
    let mut controls = BTreeMap::new();
    let mut set = |control, holds: bool, how: &str| {
        if holds {
            controls.insert(control, how.to_owned());
        }
    };
    let gvisor = measured.gvisor;
    let own = |name: &str| {
        let first = FIRST.iter().find(|(n, _)| *n == name).map(|(_, inode)| *inode);
        gvisor || measured.namespaces.iter().any(|(n, inode)| *n == name && Some(*inode) != first)
    };
    let by = |how: &'static str| if gvisor { "gvisor" } else { how };
    // gVisor's user namespace is the one it runs in, not one of the container's.
    set(Control::UserNamespace, own("user") && !gvisor, "own");
    set(Control::MountNamespace, own("mnt"), by("own"));
    set(Control::PidNamespace, own("pid"), by("own"));
    set(
        Control::NetworkNamespace,
        around.closed.is_some() && own("net"),
        by(around.closed.unwrap_or_default()),
    );
    set(Control::IpcNamespace, own("ipc"), by("own"));
    set(Control::UtsNamespace, own("uts"), by("own"));
    set(Control::CgroupNamespace, own("cgroup"), by("own"));
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
    limits(&mut set, measured.cgroup, shape, (around.keeper, gvisor));
    Isolation {
        backend: around.backend,
        runtime: around.runtime.map(str::to_owned),
        image: Some(around.image.to_owned()),
        network: around.network,
        controls,
    }
}

/// The guest reads its own control group. Where it sees none, as under gVisor, the word of whoever
/// made it stands alone. Processes are counted by the guest itself where nobody else holds them.
fn limits(
    set: &mut impl FnMut(Control, bool, &str),
    held: Option<MeasuredCgroup>,
    shape: &Shape,
    (keeper, gvisor): (&str, bool),
) {
    const BY_GUEST: &str = "guest, every 4 ms";
    let Some(held) = held else {
        let how = if gvisor { format!("{keeper} around gvisor") } else { keeper.to_owned() };
        set(Control::MemoryLimit, true, &how);
        set(Control::CpuLimit, true, &how);
        return set(Control::ProcessLimit, true, BY_GUEST);
    };
    let how = if held.version == 2 { "cgroup v2" } else { "cgroup v1" };
    let few = held.pids.is_some_and(|pids| pids <= u64::from(shape.pids));
    set(
        Control::MemoryLimit,
        held.memory_bytes.is_some_and(|bytes| bytes <= shape.memory_bytes),
        how,
    );
    set(Control::SwapLimit, held.no_swap, how);
    set(
        Control::CpuLimit,
        held.cpu_millis.is_some_and(|millis| millis <= u64::from(shape.cpu_millis)),
        how,
    );
    set(Control::ProcessLimit, true, if few { how } else { BY_GUEST });
}
