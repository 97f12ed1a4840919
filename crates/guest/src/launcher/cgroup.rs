//! One sandbox's own control groups, in either hierarchy: made before its first process, read and
//! removed after its last.

use guest::jail::{CgroupController, CgroupLimits, Cgroups, Counters, EnforcedLimits};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The period over which the CPU quota is counted: the longest the kernel takes. A run is a batch
/// job that starts an interpreter first; with a short period half a core would pause it in the
/// middle of that, several times.
const CPU_PERIOD_MICROS: u64 = 1_000_000;

/// What sockets may hold of the kernel's memory on v1, which counts it apart, and only once this is
/// set. Written when a group is made: the first one makes the kernel patch itself, and nobody waits
/// for a spare.
const SOCKET_BYTES: u64 = 16 << 20;

/// The directories of one sandbox.
pub enum Group {
    None,
    V2 { directory: PathBuf, controllers: Vec<CgroupController> },
    V1 { directories: Vec<(CgroupController, PathBuf)> },
}

impl Group {
    /// Makes the directories for a sandbox called `name`.
    pub fn create(base: &Cgroups, name: &str) -> io::Result<Group> {
        match base {
            Cgroups::None => Ok(Group::None),
            Cgroups::V2 { directory, controllers } => {
                let directory = Path::new(directory).join(name);
                fs::create_dir(&directory)?;
                Ok(Group::V2 { directory, controllers: controllers.clone() })
            }
            Cgroups::V1 { directories } => {
                let named =
                    |(controller, base): &(_, String)| (*controller, Path::new(base).join(name));
                let directories: Vec<_> = directories.iter().map(named).collect();
                let made = directories
                    .iter()
                    .try_for_each(|(controller, directory)| create_v1(*controller, directory));
                let group = Group::V1 { directories };
                if made.is_err() {
                    // Those that were made before one was refused.
                    group.remove();
                }
                made.map(|()| group)
            }
        }
    }

    /// The descriptor to clone into, where the kernel can do that.
    pub fn clone_target(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            Group::V2 { directory, .. } => Ok(Some(File::open(directory)?.into())),
            _ => Ok(None),
        }
    }

    /// Moves the calling process in, where it could not be cloned in.
    ///
    /// The kernel may wait out a grace period for each move, some 10 ms on an idle machine, so this
    /// is done by a child that nobody waits for yet.
    pub fn enter(&self) -> io::Result<()> {
        if let Group::V1 { directories } = self {
            for (_, directory) in directories {
                fs::write(directory.join("cgroup.procs"), "0")?;
            }
        }
        Ok(())
    }

    /// Writes the limits, and tells which of them hold.
    pub fn limit(&self, limits: &CgroupLimits) -> io::Result<EnforcedLimits> {
        let memory = limits.memory_bytes.to_string();
        let pids = limits.pids.to_string();
        let quota = u64::from(limits.cpu_millis) * CPU_PERIOD_MICROS / 1000;
        let mut enforced = EnforcedLimits::default();
        match self {
            Group::None => {}
            Group::V2 { directory, controllers } => {
                for controller in controllers {
                    match controller {
                        CgroupController::Memory => {
                            fs::write(directory.join("memory.max"), &memory)?;
                            enforced.memory = true;
                            // Absent when the kernel has no swap accounting; then there is nothing
                            // to forbid.
                            enforced.swap =
                                fs::write(directory.join("memory.swap.max"), "0").is_ok();
                        }
                        CgroupController::Pids => {
                            fs::write(directory.join("pids.max"), &pids)?;
                            enforced.pids = true;
                        }
                        CgroupController::Cpu => {
                            fs::write(
                                directory.join("cpu.max"),
                                format!("{quota} {CPU_PERIOD_MICROS}"),
                            )?;
                            enforced.cpu = true;
                        }
                    }
                }
            }
            Group::V1 { directories } => {
                for (controller, directory) in directories {
                    match controller {
                        CgroupController::Memory => {
                            fs::write(directory.join("memory.limit_in_bytes"), &memory)?;
                            enforced.memory = true;
                            // Memory and swap together may be no more than memory: no swap.
                            enforced.swap =
                                fs::write(directory.join("memory.memsw.limit_in_bytes"), &memory)
                                    .is_ok();
                        }
                        CgroupController::Pids => {
                            fs::write(directory.join("pids.max"), &pids)?;
                            enforced.pids = true;
                        }
                        CgroupController::Cpu => {
                            fs::write(
                                directory.join("cpu.cfs_period_us"),
                                CPU_PERIOD_MICROS.to_string(),
                            )?;
                            fs::write(directory.join("cpu.cfs_quota_us"), quota.to_string())?;
                            enforced.cpu = true;
                        }
                    }
                }
            }
        }
        Ok(enforced)
    }

    /// Adds what the groups counted to `counters`.
    pub fn count(&self, counters: &mut Counters) {
        let read = |controller: CgroupController, v1: &str, v2: &str| -> Option<String> {
            match self {
                Group::None => None,
                Group::V2 { directory, .. } => fs::read_to_string(directory.join(v2)).ok(),
                Group::V1 { directories } => {
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
            events.as_deref().and_then(|text| field(text, "oom_kill")).unwrap_or(0);
        let events = read(CgroupController::Pids, "pids.events", "pids.events");
        counters.forks_refused = events.as_deref().and_then(|text| field(text, "max")).unwrap_or(0);
    }

    /// Removes the directories; true when none is left.
    pub fn remove(&self) -> bool {
        match self {
            Group::None => true,
            Group::V2 { directory, .. } => removed(directory),
            // Every directory is tried, even after one failed.
            Group::V1 { directories } => {
                directories.iter().filter(|(_, directory)| !removed(directory)).count() == 0
            }
        }
    }
}

fn create_v1(controller: CgroupController, directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    if controller == CgroupController::Memory { limit_sockets(directory) } else { Ok(()) }
}

fn limit_sockets(directory: &Path) -> io::Result<()> {
    match fs::OpenOptions::new().write(true).open(directory.join("memory.kmem.tcp.limit_in_bytes"))
    {
        Ok(mut file) => file.write_all(SOCKET_BYTES.to_string().as_bytes()),
        // A kernel built without it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn removed(directory: &Path) -> bool {
    match fs::remove_dir(directory) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The number after `name ` in a file of such lines.
pub fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(field(text, "oom_kill"), Some(3));
        assert_eq!(field(text, "oom"), None);
    }

    #[test]
    fn limits_are_spelled_as_the_unified_hierarchy_wants_them() {
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
        let group = Group::create(&cgroups, "one").expect("group");
        let limits = CgroupLimits { memory_bytes: 1 << 28, cpu_millis: 500, pids: 64 };
        let enforced = group.limit(&limits).expect("limits");
        assert!(enforced.memory && enforced.swap && enforced.cpu && enforced.pids);
        let read = |name: &str| fs::read_to_string(base.join("one").join(name)).expect(name);
        assert_eq!(read("memory.max"), "268435456");
        assert_eq!(read("memory.swap.max"), "0");
        assert_eq!(read("pids.max"), "64");
        assert_eq!(read("cpu.max"), "500000 1000000");
        fs::remove_dir_all(&base).expect("removal");
    }

    #[test]
    fn sockets_are_limited_where_they_are_counted_apart() {
        let base =
            std::env::temp_dir().join(format!("skillbox-sockets-test-{}", std::process::id()));
        fs::create_dir_all(&base).expect("temporary directory");
        limit_sockets(&base).expect("a kernel without it is no failure");
        let file = base.join("memory.kmem.tcp.limit_in_bytes");
        assert!(!file.exists());
        File::create(&file).expect("a file as the kernel has it");
        limit_sockets(&base).expect("limit");
        assert_eq!(fs::read_to_string(&file).expect("the limit"), "16777216");
        fs::remove_dir_all(&base).expect("removal");
    }
}
