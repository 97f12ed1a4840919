//! The plan of the sandboxes on this host, and the limits of one: pure functions, and the whole
//! native policy on one page.

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

/// Parts of `/etc` that programs need and that say nothing of the host: where libraries are, and
/// which of several programs a name means.
const ETC: [&str; 2] = ["/etc/ld.so.cache", "/etc/alternatives"];

/// What a script needs beside the network itself, where it has the host's: how names are resolved,
/// and whose certificates are believed. Never the directory around the certificates, which has
/// private keys in it too.
const NETWORK_ETC: [&str; 7] = [
    "/etc/hosts", "/etc/resolv.conf", "/etc/ssl/certs", "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf", "/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs",
];

/// What the host has at the top of its file system, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoot {
    /// Links into `/usr` on merged systems, directories on others.
    pub top: Vec<RootEntry>,
    pub etc: Vec<String>,
    pub network_etc: Vec<String>,
}

impl HostRoot {
    pub fn read() -> HostRoot {
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

/// What a sandbox of this shape may use.
pub fn limits(shape: &Shape, cgroups: &Cgroups) -> SandboxLimits {
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
pub fn plan(host: &HostRoot, interpreters: &Interpreters, network: SandboxNetwork) -> SandboxPlan {
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
        SandboxNetwork::Own => own_names(),
        SandboxNetwork::Host => hosts_names(&host.network_etc),
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
    // After the writable directories, in case an interpreter lives below one of them.
    root.extend(interpreters.binds().iter().map(|path| bind(&path.to_string_lossy())));
    root
}

fn own_etc() -> Vec<RootEntry> {
    vec![
        etc("passwd", &format!("sandbox:x:{INSIDE_ID}:{INSIDE_ID}::{}:/bin/bash\n", paths::TMP)),
        etc("group", &format!("sandbox:x:{INSIDE_ID}:\n")),
    ]
}

/// The only name there is.
fn own_names() -> Vec<RootEntry> {
    vec![
        etc("hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"),
        etc("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ]
}

/// The names that the host knows, and whom it asks for others.
fn hosts_names(network_etc: &[String]) -> Vec<RootEntry> {
    let mut names = vec![etc("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")];
    names.extend(network_etc.iter().map(|path| bind(path)));
    names
}

fn etc(name: &str, contents: &str) -> RootEntry {
    RootEntry::File { path: format!("/etc/{name}"), contents: contents.to_owned() }
}

fn rlimits(shape: &Shape, cgroups: &Cgroups) -> Vec<(Rlimit, u64)> {
    let mut limits = policy::rlimits(shape);
    // Where a cgroup holds the limit these would only hide its counters.
    if !has(cgroups, CgroupController::Pids) {
        limits.push((Rlimit::Processes, u64::from(shape.pids)));
    }
    if !has(cgroups, CgroupController::Memory) {
        limits.push((Rlimit::Data, shape.memory_bytes));
    }
    limits
}

/// Whether the cgroups at hand have this controller.
pub fn has(cgroups: &Cgroups, wanted: CgroupController) -> bool {
    match cgroups {
        Cgroups::None => false,
        Cgroups::V2 { controllers, .. } => controllers.contains(&wanted),
        Cgroups::V1 { directories } => {
            directories.iter().any(|(controller, _)| *controller == wanted)
        }
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

    /// The filters have tests of their own, and as bytes say nothing to a reader.
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
    fn the_hosts_network_brings_its_names_and_takes_unix_sockets() {
        let made = |network| plan(&host(), &pyenv(), network);
        let (own, open) = (made(SandboxNetwork::Own), made(SandboxNetwork::Host));
        let new: Vec<_> = open.root.iter().filter(|entry| !own.root.contains(entry)).collect();
        let dns = etc("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
        assert_eq!(new, [&dns, &bind("/etc/resolv.conf")]);
        assert_ne!(open.seccomp, own.seccomp);
        // Everything else stays as it is.
        let same = SandboxPlan { root: own.root.clone(), seccomp: own.seccomp.clone(), ..open };
        assert_eq!(same, own);
    }
}
