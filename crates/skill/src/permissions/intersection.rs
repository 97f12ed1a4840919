//! The intersection of two permission lists.

use super::{
    DEFAULT_SYSCALL_PROFILE, EgressRule, EnvVarPermissions, FilesystemPermissions,
    NetworkPermissions, Permissions, SyscallPermissions, is_within,
};

impl Permissions {
    /// The permissions that both grant. A part that only one of them has is kept; unknown entries
    /// of both are kept, so that they are still rejected.
    pub(crate) fn intersect(self, other: Self) -> Self {
        let egress = combine(self.network.egress, other.network.egress, intersect_egress);
        let read = combine(self.filesystem.read, other.filesystem.read, intersect_paths);
        let write = combine(self.filesystem.write, other.filesystem.write, intersect_paths);
        let allow = combine(self.env_vars.allow, other.env_vars.allow, |a, b| {
            a.into_iter().filter(|name| b.contains(name)).collect()
        });
        // Of two profiles the one that is not the default is kept, because it has to be rejected.
        let profile = combine(self.syscalls.profile, other.syscalls.profile, |a, b| {
            if a == DEFAULT_SYSCALL_PROFILE { b } else { a }
        });
        let mut unknown = self.unknown;
        unknown.extend(other.unknown);
        Self {
            network: NetworkPermissions { egress },
            filesystem: FilesystemPermissions { read, write },
            env_vars: EnvVarPermissions { allow },
            syscalls: SyscallPermissions { profile },
            unknown,
        }
    }
}

fn combine<T>(a: Option<T>, b: Option<T>, shared: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(shared(a, b)),
        (one, other) => one.or(other),
    }
}

fn intersect_egress(a: Vec<EgressRule>, b: Vec<EgressRule>) -> Vec<EgressRule> {
    let mut shared = Vec::new();
    for one in &a {
        for other in b.iter().filter(|other| other.domain == one.domain) {
            let ports = match (one.ports.is_empty(), other.ports.is_empty()) {
                (true, _) => other.ports.clone(),
                (_, true) => one.ports.clone(),
                _ => one.ports.iter().copied().filter(|port| other.ports.contains(port)).collect(),
            };
            // Two lists without a common port have an empty intersection, but an empty list would
            // mean every port.
            if !ports.is_empty() || (one.ports.is_empty() && other.ports.is_empty()) {
                shared.push(EgressRule { domain: one.domain.clone(), ports });
            }
        }
    }
    shared
}

fn intersect_paths(a: Vec<String>, b: Vec<String>) -> Vec<String> {
    let narrower = |these: &[String], those: &[String]| -> Vec<String> {
        these
            .iter()
            .filter(|path| those.iter().any(|place| is_within(path, place)))
            .cloned()
            .collect()
    };
    let mut shared = narrower(&a, &b);
    let more: Vec<String> =
        narrower(&b, &a).into_iter().filter(|path| !shared.contains(path)).collect();
    shared.extend(more);
    shared
}
