//! The plan of the sandboxes on this host, and the limits of one sandbox: pure functions with the
//! complete policy of the native backend.

use super::interpreters::Interpreters;
use crate::launcher::Shape;
use crate::policy::{self, MASKED, MASKED_NATIVELY, WRITABLE};
use crate::seccomp;
use guest::jail::{
    CgroupController, CgroupLimits, Cgroups, INSIDE_ID, Rlimit, RootEntry, SandboxLimits,
    SandboxNetwork, SandboxPlan, ScratchLimits,
};
use guest::protocol::paths;

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Parts of `/etc` that programs need and that reveal nothing about the host: the library cache and
/// the alternatives.
const ETC: [&str; 2] = ["/etc/ld.so.cache", "/etc/alternatives"];

/// Files that a script on the host's network needs: name resolution and trusted certificates. Never
/// the directory above the certificates, which also has private keys.
const NETWORK_ETC: [&str; 7] = [
    "/etc/hosts", "/etc/resolv.conf", "/etc/ssl/certs", "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf", "/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs",
];

/// The relevant entries of the host's root directory, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostRoot {
    /// Links into `/usr` on merged systems, directories on others.
    pub top: Vec<RootEntry>,
    pub etc: Vec<String>,
    pub network_etc: Vec<String>,
}

impl HostRoot {
    pub(super) fn read() -> HostRoot {
        let top =
            ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].iter().filter_map(|path| {
                match std::fs::read_link(path) {
                    Ok(target) => Some(RootEntry::Symlink {
                        path: path.to_string(),
                        target: target.to_str()?.to_owned(),
                    }),
                    Err(_) => std::path::Path::new(path).is_dir().then(|| bind(path)),
                }
            });
        let there = |paths: &[&str]| -> Vec<String> {
            let there = paths.iter().filter(|path| std::path::Path::new(path).exists());
            there.map(|path| path.to_string()).collect()
        };
        HostRoot { top: top.collect(), etc: there(&ETC), network_etc: there(&NETWORK_ETC) }
    }
}

/// The limits of a sandbox of this shape.
pub(super) fn limits(shape: &Shape, cgroups: &Cgroups) -> SandboxLimits {
    SandboxLimits {
        cgroup: CgroupLimits {
            memory_bytes: shape.memory_bytes,
            cpu_millis: shape.cpu_millis,
            pids: shape.pids,
        },
        scratch: ScratchLimits { bytes: shape.disk_bytes, inodes: shape.disk_inodes },
        rlimits: rlimits(shape, cgroups),
    }
}

/// The plan of all sandboxes on this host.
pub(super) fn plan(
    host: &HostRoot,
    interpreters: &Interpreters,
    network: SandboxNetwork,
) -> SandboxPlan {
    SandboxPlan {
        hostname: "sandbox".to_owned(),
        root: root(host, interpreters, network),
        landlock: policy::landlock(),
        seccomp: seccomp::program(network),
        notify_filter: seccomp::notify_filter(),
        no_lock_filter: seccomp::no_lock_filter(),
        private_inodes: true,
        path: interpreters.path(),
    }
}

fn root(host: &HostRoot, interpreters: &Interpreters, network: SandboxNetwork) -> Vec<RootEntry> {
    let mut root = vec![bind("/usr")];
    root.extend(host.top.iter().cloned());
    root.extend(host.etc.iter().map(|path| bind(path)));
    root.extend(own_etc());
    root.extend(match network {
        SandboxNetwork::Own => local_name_resolution(),
        SandboxNetwork::Host => host_name_resolution(&host.network_etc),
    });
    root.push(etc("hostname", "sandbox\n"));
    root.extend(DEVICES.iter().map(|path| RootEntry::Device { path: path.to_string() }));
    root.extend([("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")].map(
        |(name, number)| RootEntry::Symlink {
            path: format!("/dev/{name}"),
            target: format!("/proc/self/fd{number}"),
        },
    ));
    root.push(RootEntry::Proc {
        masked: MASKED.iter().chain(MASKED_NATIVELY).map(|path| path.to_string()).collect(),
    });
    root.extend(WRITABLE.iter().map(|path| RootEntry::Scratch { path: path.to_string() }));
    // After the writable directories, in case an interpreter is installed below one of them.
    root.extend(interpreters.binds().iter().map(|path| bind(&path.to_string_lossy())));
    root
}

fn own_etc() -> Vec<RootEntry> {
    vec![
        etc("passwd", &format!("sandbox:x:{INSIDE_ID}:{INSIDE_ID}::{}:/bin/bash\n", paths::TMP)),
        etc("group", &format!("sandbox:x:{INSIDE_ID}:\n")),
    ]
}

/// Name resolution without a network: only localhost.
fn local_name_resolution() -> Vec<RootEntry> {
    vec![
        etc("hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"),
        etc("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ]
}

/// Name resolution as on the host.
fn host_name_resolution(network_etc: &[String]) -> Vec<RootEntry> {
    let mut names = vec![etc("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")];
    names.extend(network_etc.iter().map(|path| bind(path)));
    names
}

fn etc(name: &str, contents: &str) -> RootEntry {
    RootEntry::File { path: format!("/etc/{name}"), contents: contents.to_owned() }
}

fn rlimits(shape: &Shape, cgroups: &Cgroups) -> Vec<(Rlimit, u64)> {
    let mut limits = policy::rlimits(shape);
    // Only without a cgroup: reaching an rlimit first would hide the cgroup's counters.
    if !has_controller(cgroups, CgroupController::Pids) {
        limits.push((Rlimit::Processes, u64::from(shape.pids)));
    }
    if !has_controller(cgroups, CgroupController::Memory) {
        limits.push((Rlimit::Data, shape.memory_bytes));
    }
    limits
}

/// Whether the cgroups have this controller.
pub(super) fn has_controller(cgroups: &Cgroups, controller: CgroupController) -> bool {
    match cgroups {
        Cgroups::None => false,
        Cgroups::V2 { controllers, .. } => controllers.contains(&controller),
        Cgroups::V1 { directories } => directories.iter().any(|(other, _)| *other == controller),
    }
}

fn bind(path: &str) -> RootEntry {
    RootEntry::Bind { source: path.to_owned(), target: path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::interpreters::Interpreter;
    use language::Language;
    use std::collections::BTreeMap;

    const SHAPE: Shape = Shape {
        language: Language::Python,
        image: None,
        memory_bytes: 256 << 20,
        cpu_millis: 500,
        pids: 64,
        disk_bytes: 128 << 20,
        disk_inodes: 16_384,
    };

    fn host() -> HostRoot {
        let link = |path: &str, target: &str| RootEntry::Symlink {
            path: path.to_owned(),
            target: target.to_owned(),
        };
        HostRoot {
            top: vec![link("/bin", "usr/bin"), link("/lib", "usr/lib")],
            etc: vec!["/etc/ld.so.cache".to_owned()],
            network_etc: vec!["/etc/resolv.conf".to_owned()],
        }
    }

    fn pyenv() -> Interpreters {
        let python = Interpreter {
            program: "/home/me/.pyenv/versions/3.12/bin/python3".into(),
            version: "3.12.1".to_owned(),
            binds: vec!["/home/me/.pyenv/versions/3.12".into()],
        };
        Interpreters(BTreeMap::from([(Language::Python, python)]))
    }

    /// Without the filters, which have tests of their own and are not readable as bytes.
    fn readable(mut plan: SandboxPlan) -> SandboxPlan {
        plan.seccomp.clear();
        plan.notify_filter.clear();
        plan.no_lock_filter.clear();
        plan
    }

    #[test]
    fn a_sandbox_with_cgroups() {
        let directories = [CgroupController::Memory, CgroupController::Pids, CgroupController::Cpu]
            .map(|c| (c, "/x".to_owned()))
            .to_vec();
        let plan = plan(&host(), &pyenv(), SandboxNetwork::Own);
        insta::assert_debug_snapshot!((
            readable(plan),
            limits(&SHAPE, &Cgroups::V1 { directories })
        ));
    }

    #[test]
    fn without_cgroups_rlimits_stand_in() {
        insta::assert_debug_snapshot!(limits(&SHAPE, &Cgroups::None).rlimits);
    }

    #[test]
    fn host_network_adds_name_resolution_and_removes_unix_sockets() {
        let made = |network| plan(&host(), &pyenv(), network);
        let (own, open) = (made(SandboxNetwork::Own), made(SandboxNetwork::Host));
        let new: Vec<_> = open.root.iter().filter(|entry| !own.root.contains(entry)).collect();
        let dns = etc("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
        assert_eq!(new, [&dns, &bind("/etc/resolv.conf")]);
        assert_ne!(open.seccomp, own.seccomp);
        // Everything else is the same.
        let same = SandboxPlan { root: own.root.clone(), seccomp: own.seccomp.clone(), ..open };
        assert_eq!(same, own);
    }
}
