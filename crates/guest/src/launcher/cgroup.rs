//! The cgroups of one sandbox, in either hierarchy: created before its first process, read and
//! removed after its last.

use guest::jail::{CgroupController, CgroupLimits, Cgroups, Counters, EnforcedLimits};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The period of the CPU quota: the maximum that the kernel accepts. A run is a batch job that
/// starts an interpreter first; with a short period, a quota of half a core would throttle it
/// several times during that start.
const CPU_PERIOD_MICROS: u64 = 1_000_000;

/// The limit on kernel memory of sockets on v1, which counts it separately, and only once this is
/// set. Written when a cgroup is created rather than at launch: the first write makes the kernel
/// patch its code, and no request waits for a spare.
const MAX_SOCKET_BYTES: u64 = 16 << 20;

/// The directories of one sandbox.
pub(super) enum SandboxCgroup {
    None,
    V2 { directory: PathBuf, controllers: Vec<CgroupController> },
    V1 { directories: Vec<(CgroupController, PathBuf)> },
}

impl SandboxCgroup {
    /// Creates the directories of a sandbox called `name`.
    pub(super) fn create(base: &Cgroups, name: &str) -> io::Result<SandboxCgroup> {
        match base {
            Cgroups::None => Ok(SandboxCgroup::None),
            Cgroups::V2 { directory, controllers } => {
                let directory = Path::new(directory).join(name);
                fs::create_dir(&directory)?;
                Ok(SandboxCgroup::V2 { directory, controllers: controllers.clone() })
            }
            Cgroups::V1 { directories } => {
                let named =
                    |(controller, base): &(_, String)| (*controller, Path::new(base).join(name));
                let directories: Vec<_> = directories.iter().map(named).collect();
                let made = directories
                    .iter()
                    .try_for_each(|(controller, directory)| create_v1(*controller, directory));
                let group = SandboxCgroup::V1 { directories };
                if made.is_err() {
                    // Removes those that were created before the failure.
                    group.remove();
                }
                made.map(|()| group)
            }
        }
    }

    /// The descriptor for `CLONE_INTO_CGROUP`, which only the unified hierarchy supports.
    pub(super) fn clone_target(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            SandboxCgroup::V2 { directory, .. } => Ok(Some(File::open(directory)?.into())),
            SandboxCgroup::None | SandboxCgroup::V1 { .. } => Ok(None),
        }
    }

    /// Moves the calling process into the cgroup, where it could not be cloned into it.
    ///
    /// The kernel may wait for an RCU grace period per move, about 10 ms on an idle machine, so a
    /// spare child does this before it is needed.
    pub(super) fn enter(&self) -> io::Result<()> {
        if let SandboxCgroup::V1 { directories } = self {
            for (_, directory) in directories {
                fs::write(directory.join("cgroup.procs"), "0")?;
            }
        }
        Ok(())
    }

    /// Writes the limits; returns which of them the kernel enforces.
    pub(super) fn apply_limits(&self, limits: &CgroupLimits) -> io::Result<EnforcedLimits> {
        let mut enforced = EnforcedLimits::default();
        match self {
            SandboxCgroup::None => {}
            SandboxCgroup::V2 { directory, controllers } => {
                for controller in controllers {
                    apply_v2(*controller, directory, limits, &mut enforced)?;
                }
            }
            SandboxCgroup::V1 { directories } => {
                for (controller, directory) in directories {
                    apply_v1(*controller, directory, limits, &mut enforced)?;
                }
            }
        }
        Ok(enforced)
    }

    /// Adds the counters of the cgroups to `counters`.
    pub(super) fn add_counters(&self, counters: &mut Counters) {
        let read = |controller: CgroupController, v1: &str, v2: &str| -> Option<String> {
            match self {
                SandboxCgroup::None => None,
                SandboxCgroup::V2 { directory, .. } => fs::read_to_string(directory.join(v2)).ok(),
                SandboxCgroup::V1 { directories } => {
                    let (_, directory) = directories.iter().find(|(c, _)| *c == controller)?;
                    fs::read_to_string(directory.join(v1)).ok()
                }
            }
        };
        let peak = read(CgroupController::Memory, "memory.max_usage_in_bytes", "memory.peak");
        if let Some(peak) = peak.and_then(|text| text.trim().parse().ok()) {
            counters.peak_memory_bytes = peak;
        }
        let events = read(CgroupController::Memory, "memory.oom_control", "memory.events");
        counters.oom_kills =
            events.as_deref().and_then(|text| parse_field(text, "oom_kill")).unwrap_or(0);
        let events = read(CgroupController::Pids, "pids.events", "pids.events");
        counters.forks_refused =
            events.as_deref().and_then(|text| parse_field(text, "max")).unwrap_or(0);
    }

    /// Removes the directories; true when none remains.
    pub(super) fn remove(&self) -> bool {
        match self {
            SandboxCgroup::None => true,
            SandboxCgroup::V2 { directory, .. } => remove_directory(directory),
            // Tries every directory, even after one failed.
            SandboxCgroup::V1 { directories } => {
                directories.iter().filter(|(_, directory)| !remove_directory(directory)).count()
                    == 0
            }
        }
    }
}

fn apply_v2(
    controller: CgroupController,
    directory: &Path,
    limits: &CgroupLimits,
    enforced: &mut EnforcedLimits,
) -> io::Result<()> {
    match controller {
        CgroupController::Memory => {
            fs::write(directory.join("memory.max"), limits.memory_bytes.to_string())?;
            enforced.memory = true;
            // Absent when the kernel has no swap accounting.
            enforced.swap = fs::write(directory.join("memory.swap.max"), "0").is_ok();
        }
        CgroupController::Pids => {
            fs::write(directory.join("pids.max"), limits.pids.to_string())?;
            enforced.pids = true;
        }
        CgroupController::Cpu => {
            let max = format!("{} {CPU_PERIOD_MICROS}", cpu_quota_micros(limits));
            fs::write(directory.join("cpu.max"), max)?;
            enforced.cpu = true;
        }
    }
    Ok(())
}

fn apply_v1(
    controller: CgroupController,
    directory: &Path,
    limits: &CgroupLimits,
    enforced: &mut EnforcedLimits,
) -> io::Result<()> {
    match controller {
        CgroupController::Memory => {
            let memory = limits.memory_bytes.to_string();
            fs::write(directory.join("memory.limit_in_bytes"), &memory)?;
            enforced.memory = true;
            // Limits memory plus swap to the memory limit: no swap. The kernel requires that the
            // memory limit is set before.
            enforced.swap =
                fs::write(directory.join("memory.memsw.limit_in_bytes"), &memory).is_ok();
        }
        CgroupController::Pids => {
            fs::write(directory.join("pids.max"), limits.pids.to_string())?;
            enforced.pids = true;
        }
        CgroupController::Cpu => {
            fs::write(directory.join("cpu.cfs_period_us"), CPU_PERIOD_MICROS.to_string())?;
            let quota = cpu_quota_micros(limits);
            fs::write(directory.join("cpu.cfs_quota_us"), quota.to_string())?;
            enforced.cpu = true;
        }
    }
    Ok(())
}

fn cpu_quota_micros(limits: &CgroupLimits) -> u64 {
    u64::from(limits.cpu_millis) * CPU_PERIOD_MICROS / 1000
}

fn create_v1(controller: CgroupController, directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    if controller == CgroupController::Memory { limit_sockets(directory) } else { Ok(()) }
}

fn limit_sockets(directory: &Path) -> io::Result<()> {
    match fs::OpenOptions::new().write(true).open(directory.join("memory.kmem.tcp.limit_in_bytes"))
    {
        Ok(mut file) => file.write_all(MAX_SOCKET_BYTES.to_string().as_bytes()),
        // A kernel without this feature.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn remove_directory(directory: &Path) -> bool {
    match fs::remove_dir(directory) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The value of a line `name value`.
pub(crate) fn parse_field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_field_by_its_whole_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(parse_field(text, "oom_kill"), Some(3));
        assert_eq!(parse_field(text, "oom"), None);
    }

    #[test]
    fn writes_limits_in_the_format_of_the_unified_hierarchy() {
        let base =
            std::env::temp_dir().join(format!("skillbox-cgroup-test-{}", std::process::id()));
        fs::create_dir_all(&base).expect("temporary directory");
        let cgroups = Cgroups::V2 {
            directory: base.to_string_lossy().into_owned(),
            controllers: vec![
                CgroupController::Memory,
                CgroupController::Pids,
                CgroupController::Cpu,
            ],
        };
        let group = SandboxCgroup::create(&cgroups, "one").expect("group");
        let limits = CgroupLimits { memory_bytes: 1 << 28, cpu_millis: 500, pids: 64 };
        let enforced = group.apply_limits(&limits).expect("limits");
        assert!(enforced.memory && enforced.swap && enforced.cpu && enforced.pids);
        let read = |name: &str| fs::read_to_string(base.join("one").join(name)).expect(name);
        assert_eq!(read("memory.max"), "268435456");
        assert_eq!(read("memory.swap.max"), "0");
        assert_eq!(read("pids.max"), "64");
        assert_eq!(read("cpu.max"), "500000 1000000");
        fs::remove_dir_all(&base).expect("removal");
    }

    #[test]
    fn limits_socket_memory_where_the_kernel_counts_it_separately() {
        let base =
            std::env::temp_dir().join(format!("skillbox-sockets-test-{}", std::process::id()));
        fs::create_dir_all(&base).expect("temporary directory");
        limit_sockets(&base).expect("a kernel without the file is not an error");
        let file = base.join("memory.kmem.tcp.limit_in_bytes");
        assert!(!file.exists());
        File::create(&file).expect("a file as the kernel has it");
        limit_sockets(&base).expect("apply_limits");
        assert_eq!(fs::read_to_string(&file).expect("the apply_limits"), "16777216");
        fs::remove_dir_all(&base).expect("removal");
    }
}
