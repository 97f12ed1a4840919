//! The confinement that a process applies to itself: resource limits, Landlock, seccomp.

use super::sys;
use guest::jail::{LandlockRules, Rlimit};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::process::Resource;
use std::io;
use std::os::fd::OwnedFd;

/// The newest Landlock ABI that is used; an older kernel enforces the rights that it supports.
const NEWEST_ABI: ABI = ABI::V6;

/// Forbids core dumps of the launcher and all its children. With a limit of 1 the kernel neither
/// writes a core file nor starts the host's core dump handler, which a limit of 0 does not prevent;
/// root can set it even where the service's own limit is 0.
pub(crate) fn forbid_core_dumps() {
    let both = rustix::process::Rlimit { current: Some(1), maximum: Some(1) };
    let _ = rustix::process::setrlimit(Resource::Core, both);
}

pub(crate) fn set_rlimits(limits: &[(Rlimit, u64)]) -> io::Result<()> {
    for (limit, value) in limits {
        let resource = resource(*limit);
        // The service's own hard limit may be lower and cannot be raised.
        let value =
            rustix::process::getrlimit(resource).maximum.map_or(*value, |most| most.min(*value));
        let both = rustix::process::Rlimit { current: Some(value), maximum: Some(value) };
        rustix::process::setrlimit(resource, both)?;
    }
    Ok(())
}

/// The same, ignoring errors: gVisor supports only some of these limits.
pub(crate) fn lower_rlimits(limits: &[(Rlimit, u64)]) {
    for limit in limits {
        let _ = set_rlimits(std::slice::from_ref(limit));
    }
}

fn resource(limit: Rlimit) -> Resource {
    match limit {
        Rlimit::Core => Resource::Core,
        Rlimit::Data => Resource::Data,
        Rlimit::FileSize => Resource::Fsize,
        Rlimit::MemoryLock => Resource::Memlock,
        Rlimit::MessageQueue => Resource::Msgqueue,
        Rlimit::Nice => Resource::Nice,
        Rlimit::OpenFiles => Resource::Nofile,
        Rlimit::PendingSignals => Resource::Sigpending,
        Rlimit::Processes => Resource::Nproc,
        Rlimit::RealtimePriority => Resource::Rtprio,
        Rlimit::Stack => Resource::Stack,
    }
}

/// Restricts access to the given paths, as a second layer behind the mounts, and keeps signals and
/// abstract sockets inside of the sandbox.
pub(crate) fn restrict_paths(rules: &LandlockRules) -> io::Result<()> {
    landlock_ruleset(rules)
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(io::Error::other)?;
    Ok(())
}

fn landlock_ruleset(rules: &LandlockRules) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::from_read(NEWEST_ABI);
    let read_and_write =
        AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile | AccessFs::Truncate;
    let all = AccessFs::from_all(NEWEST_ABI) & !(AccessFs::MakeBlock | AccessFs::MakeChar);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST_ABI))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    let ruleset = allow(ruleset, &rules.read_and_execute, read)?;
    let ruleset = allow(ruleset, &rules.read_and_write, read_and_write)?;
    allow(ruleset, &rules.everything, all)
}

fn allow(
    mut ruleset: RulesetCreated,
    paths: &[String],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    for path in paths {
        // Directory rights are invalid for a device node.
        let is_file = std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir());
        let access = if is_file { access & AccessFs::from_file(NEWEST_ABI) } else { access };
        if let Ok(fd) = PathFd::new(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    Ok(ruleset)
}

/// Installs the notify filter and returns its listener. Failure is not an error (the kernel may not
/// support it, or have another listener already): the filter neither allows nor denies anything.
pub(crate) fn notify_filter(program: &[u8]) -> Option<OwnedFd> {
    if program.is_empty() { None } else { sys::install_notify_filter(program).ok() }
}

/// Installs a seccomp filter.
pub(crate) fn filter_system_calls(program: &[u8]) -> io::Result<()> {
    sys::install_seccomp(program)
}
