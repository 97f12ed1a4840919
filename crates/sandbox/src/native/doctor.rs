//! The doctor report of the native backend.

use super::{Hierarchy, Interpreters, NativeConfig, NativeLauncher};
use crate::isolation::{Control, Isolation};
use crate::launcher::{Launcher, Owner};
use language::Language;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;

/// The results of the checks; `problem` is set when no sandbox can run here.
#[derive(Debug, Serialize)]
pub struct NativeReport {
    pub kernel: String,
    pub user: &'static str,
    pub cgroups: &'static str,
    pub interpreters: Interpreters,
    pub isolation: Option<Isolation>,
    pub problem: Option<String>,
}

/// Finds the interpreters, and launches a sandbox to measure its isolation.
pub async fn native_doctor(search_path: Option<OsString>) -> NativeReport {
    let interpreters = Interpreters::find(search_path.as_deref());
    let probed = probe(search_path).await;
    NativeReport {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        user: if rustix::process::geteuid().is_root() { "root" } else { "ordinary user" },
        cgroups: Hierarchy::find().name(),
        interpreters,
        problem: probed.as_ref().err().map(native_advice),
        isolation: probed.ok(),
    }
}

async fn probe(search_path: Option<OsString>) -> Result<Isolation, crate::LaunchError> {
    let owner = Owner("doctor".to_owned());
    let config = NativeConfig { owner, processes: 1, require: vec![], search_path };
    NativeLauncher::start(config)?.probe().await
}

/// Why the native sandbox does not work here, and what to do about it.
pub fn native_advice(error: &crate::LaunchError) -> String {
    format!(
        "{error}. The native sandbox needs unprivileged user namespaces: check \
         `sysctl kernel.unprivileged_userns_clone kernel.apparmor_restrict_unprivileged_userns user.max_user_namespaces`, \
         or run as root."
    )
}

/// Why a control may be missing and what to do about it.
fn remedy(control: Control) -> &'static str {
    match control {
        Control::MemoryLimit | Control::SwapLimit | Control::CpuLimit | Control::ProcessLimit => {
            "no writable cgroup: run as root, or as a systemd service with Delegate=yes"
        }
        Control::UniqueUid => "needs root: without it all runs share the service's own user id",
        Control::Landlock => "needs Linux 5.13 or later with the landlock security module enabled",
        Control::PrivateInodes => {
            "needs Linux 5.11 or later and no mounts below the directories of interpreters: without it two runs can signal \
             to each other by file locks"
        }
        Control::UserNamespace
        | Control::MountNamespace
        | Control::PidNamespace
        | Control::NetworkNamespace
        | Control::IpcNamespace
        | Control::UtsNamespace
        | Control::CgroupNamespace
        | Control::NoNewPrivileges
        | Control::Capabilities
        | Control::Seccomp
        | Control::ReadOnlyRoot
        | Control::DiskLimit => "unexpectedly missing; please report this",
    }
}

impl NativeReport {
    /// Whether skills can run here.
    pub fn is_healthy(&self) -> bool {
        self.problem.is_none() && !self.interpreters.0.is_empty()
    }
}

impl fmt::Display for NativeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel        {}", self.kernel)?;
        writeln!(f, "user          {}", self.user)?;
        writeln!(f, "cgroups       {}", self.cgroups)?;
        writeln!(f, "\ninterpreters")?;
        for language in Language::ALL {
            match self.interpreters.0.get(&language) {
                Some(found) => writeln!(
                    f,
                    "  ok   {language:<8} {:<10} {}",
                    found.version,
                    found.program.display()
                )?,
                None => {
                    writeln!(f, "  --   {language:<8} not found in PATH: skills in it cannot run")?
                }
            }
        }
        writeln!(f, "\nisolation, measured in a new sandbox")?;
        if let Some(isolation) = &self.isolation {
            for control in Control::ALL {
                match isolation.controls.get(&control) {
                    Some(how) => writeln!(f, "  ok   {control:<20} {how}")?,
                    None => writeln!(f, "  --   {control:<20} {}", remedy(control))?,
                }
            }
        }
        match &self.problem {
            Some(problem) => writeln!(f, "\nproblem: {problem}"),
            None => writeln!(f, "\nskills can run here"),
        }
    }
}
