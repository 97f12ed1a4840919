//! From a shape to the plan of a sandbox: a pure function, and the whole native policy on one page.

use super::interpreters::Interpreters;
use super::seccomp;
use crate::launcher::Shape;
use guest::jail::{Cgroups, Controller, Entry, INSIDE_ID, Landlock, Limits, Plan, Rlimit, Scratch};
use guest::protocol::paths;

/// Everything a script may write, all on one file system with one cap.
const WRITABLE: [&str; 5] = [paths::SANDBOX, paths::SKILLS, paths::WORKSPACE, paths::TMP, "/dev/shm"];

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Parts of `/etc` that programs need and that say nothing of the host: where libraries are, and which of
/// several programs a name means.
const ETC: [&str; 2] = ["/etc/ld.so.cache", "/etc/alternatives"];

/// Parts of `/proc` about the host rather than the sandbox.
const MASKED: &[&str] = &[
    "/proc/acpi", "/proc/asound", "/proc/bus", "/proc/cmdline", "/proc/config.gz", "/proc/diskstats", "/proc/driver",
    "/proc/fs", "/proc/interrupts", "/proc/irq", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys",
    "/proc/kmsg", "/proc/modules", "/proc/partitions", "/proc/pressure", "/proc/sched_debug", "/proc/scsi",
    "/proc/sysrq-trigger", "/proc/timer_list",
];

const OPEN_FILES: u64 = 1024;
const STACK_BYTES: u64 = 8 << 20;
const LOCKED_BYTES: u64 = 64 << 10;

/// What the host has at the top of its file system, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoot {
    /// Links into `/usr` on merged systems, directories on others.
    pub top: Vec<Entry>,
    pub etc: Vec<String>,
}

impl HostRoot {
    pub fn read() -> HostRoot {
        let top =
            ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].iter().filter_map(
                |path| match std::fs::read_link(path) {
                    Ok(target) => Some(Entry::Symlink { path: path.to_string(), target: target.to_str()?.to_owned() }),
                    Err(_) => std::path::Path::new(path).is_dir().then(|| bind(path)),
                },
            );
        let etc = ETC.iter().filter(|path| std::path::Path::new(path).exists());
        HostRoot { top: top.collect(), etc: etc.map(|path| path.to_string()).collect() }
    }
}

/// What the cgroup of a sandbox of this shape enforces.
pub fn limits(shape: &Shape) -> Limits {
    Limits { memory_bytes: shape.memory_bytes, cpu_millis: shape.cpu_millis, pids: shape.pids }
}

/// The plan of a sandbox of this shape on this host.
pub fn plan(shape: &Shape, host: &HostRoot, interpreters: &Interpreters, cgroups: &Cgroups) -> Plan {
    Plan {
        hostname: "sandbox".to_owned(),
        root: root(host, interpreters),
        scratch: Scratch { bytes: shape.disk_bytes, inodes: shape.disk_inodes },
        rlimits: rlimits(shape, cgroups),
        landlock: landlock(),
        seccomp: seccomp::programs(),
        path: interpreters.path(),
    }
}

fn root(host: &HostRoot, interpreters: &Interpreters) -> Vec<Entry> {
    let mut root = vec![bind("/usr")];
    root.extend(host.top.iter().cloned());
    root.extend(host.etc.iter().map(|path| bind(path)));
    root.extend(own_etc());
    root.extend(DEVICES.iter().map(|path| Entry::Device { path: path.to_string() }));
    root.extend([("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")].map(|(name, number)| {
        Entry::Symlink { path: format!("/dev/{name}"), target: format!("/proc/self/fd{number}") }
    }));
    // After the devices, because one of them covers the masked files.
    root.push(Entry::Proc { masked: MASKED.iter().map(|path| path.to_string()).collect() });
    root.extend(WRITABLE.iter().map(|path| Entry::Scratch { path: path.to_string() }));
    // After the writable directories, in case an interpreter lives below one of them.
    root.extend(interpreters.binds().iter().map(|path| bind(&path.to_string_lossy())));
    root
}

fn own_etc() -> [Entry; 5] {
    let file = |name: &str, contents: String| Entry::File { path: format!("/etc/{name}"), contents };
    [
        file("passwd", format!("sandbox:x:{INSIDE_ID}:{INSIDE_ID}::{}:/bin/bash\n", paths::TMP)),
        file("group", format!("sandbox:x:{INSIDE_ID}:\n")),
        file("hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n".to_owned()),
        file("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
        file("hostname", "sandbox\n".to_owned()),
    ]
}

fn rlimits(shape: &Shape, cgroups: &Cgroups) -> Vec<(Rlimit, u64)> {
    let mut limits = vec![
        // Not 0: that still starts the program that a host may have to take core dumps. See `seccomp::KEPT_LIMIT`.
        (Rlimit::Core, 1),
        (Rlimit::FileSize, shape.disk_bytes),
        (Rlimit::MemoryLock, LOCKED_BYTES),
        (Rlimit::MessageQueue, 0),
        (Rlimit::Nice, 0),
        (Rlimit::OpenFiles, OPEN_FILES),
        (Rlimit::PendingSignals, 1024),
        (Rlimit::RealtimePriority, 0),
        (Rlimit::Stack, STACK_BYTES),
    ];
    // Where a cgroup holds the limit these would only hide its counters.
    if !has(cgroups, Controller::Pids) {
        limits.push((Rlimit::Processes, u64::from(shape.pids)));
    }
    if !has(cgroups, Controller::Memory) {
        limits.push((Rlimit::Data, shape.memory_bytes));
    }
    limits
}

/// Whether the cgroups at hand have this controller.
pub fn has(cgroups: &Cgroups, wanted: Controller) -> bool {
    match cgroups {
        Cgroups::None => false,
        Cgroups::V2 { controllers, .. } => controllers.contains(&wanted),
        Cgroups::V1 { directories } => directories.iter().any(|(controller, _)| *controller == wanted),
    }
}

fn landlock() -> Landlock {
    Landlock {
        read_and_execute: vec!["/".to_owned()],
        // Of proc only a process's own files can be written at all. The other devices are to be read: that a
        // write to /dev/zero is refused is how the guest sees that Landlock works.
        read_and_write: vec!["/dev/null".to_owned(), "/proc".to_owned()],
        everything: WRITABLE.map(str::to_owned).to_vec(),
    }
}

fn bind(path: &str) -> Entry {
    Entry::Bind { source: path.to_owned(), target: path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::Runtime;
    use crate::native::interpreters::Interpreter;
    use std::collections::BTreeMap;

    const SHAPE: Shape = Shape {
        runtime: Runtime::Python,
        memory_bytes: 256 << 20,
        cpu_millis: 500,
        pids: 64,
        disk_bytes: 128 << 20,
        disk_inodes: 16_384,
    };

    fn host() -> HostRoot {
        let link = |path: &str, target: &str| Entry::Symlink { path: path.to_owned(), target: target.to_owned() };
        HostRoot {
            top: vec![link("/bin", "usr/bin"), link("/lib", "usr/lib")],
            etc: vec!["/etc/ld.so.cache".to_owned()],
        }
    }

    fn pyenv() -> Interpreters {
        let python = Interpreter {
            program: "/home/me/.pyenv/versions/3.12/bin/python3".into(),
            version: "3.12.1".to_owned(),
            binds: vec!["/home/me/.pyenv/versions/3.12".into()],
        };
        Interpreters(BTreeMap::from([(Runtime::Python, python)]))
    }

    /// The filters have tests of their own, and as bytes say nothing to a reader.
    fn readable(mut plan: Plan) -> Plan {
        plan.seccomp.clear();
        plan
    }

    #[test]
    fn a_sandbox_with_cgroups() {
        let directories =
            [Controller::Memory, Controller::Pids, Controller::Cpu].map(|c| (c, "/x".to_owned())).to_vec();
        let plan = plan(&SHAPE, &host(), &pyenv(), &Cgroups::V1 { directories });
        insta::assert_debug_snapshot!(readable(plan));
    }

    #[test]
    fn without_cgroups_rlimits_stand_in() {
        let plan = plan(&SHAPE, &host(), &pyenv(), &Cgroups::None);
        insta::assert_debug_snapshot!(plan.rlimits);
    }
}
