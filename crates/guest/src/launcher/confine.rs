//! The confinement that a process puts on itself: resource limits, Landlock, seccomp.

use super::sys;
use guest::jail::{LandlockRules, Rlimit};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::process::Resource;
use std::io;
use std::os::fd::OwnedFd;

/// The newest rights we know; an older kernel enforces those it has.
const KNOWN_ABI: ABI = ABI::V6;

/// For the launcher and all its children. With 1 the kernel neither writes a core file nor starts
/// the host's program that takes one, which 0 would not keep it from; and root may ask for it even
/// where the service is held to 0.
pub fn forbid_core_dumps() {
    let both = rustix::process::Rlimit { current: Some(1), maximum: Some(1) };
    let _ = rustix::process::setrlimit(Resource::Core, both);
}

pub fn set_rlimits(limits: &[(Rlimit, u64)]) -> io::Result<()> {
    for (limit, value) in limits {
        let resource = resource(*limit);
        // The service may itself be held to less, which nobody in here could raise.
        let value =
            rustix::process::getrlimit(resource).maximum.map_or(*value, |most| most.min(*value));
        let both = rustix::process::Rlimit { current: Some(value), maximum: Some(value) };
        rustix::process::setrlimit(resource, both)?;
    }
    Ok(())
}

/// The same as far as the kernel lets us: gVisor's knows only some of them.
pub fn lower_rlimits(limits: &[(Rlimit, u64)]) {
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

/// A second wall behind the mounts: only the named paths, and no signal or abstract socket leaves
/// the sandbox.
pub fn restrict_paths(rules: &LandlockRules) -> io::Result<()> {
    landlock_ruleset(rules)
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(io::Error::other)?;
    Ok(())
}

fn landlock_ruleset(rules: &LandlockRules) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::from_read(KNOWN_ABI);
    let read_and_write =
        AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile | AccessFs::Truncate;
    let all = AccessFs::from_all(KNOWN_ABI) & !(AccessFs::MakeBlock | AccessFs::MakeChar);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN_ABI))?
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
        // A device node takes no directory rights.
        let is_file = std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir());
        let access = if is_file { access & AccessFs::from_file(KNOWN_ABI) } else { access };
        if let Ok(fd) = PathFd::new(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    Ok(ruleset)
}

/// Installs the program whose calls are heard on the descriptor that comes back. A kernel that
/// cannot do it, or that has somebody else listening already, is no reason not to run: nothing is
/// allowed or refused by it.
pub fn witness(program: &[u8]) -> Option<OwnedFd> {
    if program.is_empty() { None } else { sys::install_witness(program).ok() }
}

pub fn filter_system_calls(program: &[u8]) -> io::Result<()> {
    sys::install_seccomp(program)
}
