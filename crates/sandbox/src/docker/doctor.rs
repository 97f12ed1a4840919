//! The doctor's report on a Docker engine: its features, and warnings about its components.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::kernel::Kernel;
use super::vulnerabilities::{self, GVISOR};
use super::{DockerConfig, DockerLauncher, gvisor};
use crate::container_backend::{error_with_sources, write_controls};
use crate::isolation::Isolation;
use crate::launcher::Launcher;

/// The findings; `problem` is set when no skill can run on this engine.
#[derive(Debug, Serialize)]
pub struct DockerReport {
    pub host: String,
    /// The version of each component: the engine, and what it reports of containerd, runc and
    /// others.
    pub versions: BTreeMap<String, String>,
    /// The OCI runtime of skills, and all that the engine has.
    pub runtime: Option<String>,
    pub runtimes: Vec<String>,
    pub security: Vec<String>,
    pub warnings: Vec<String>,
    pub isolation: Option<Isolation>,
    pub problem: Option<String>,
}

/// The information that an engine reports about itself.
#[derive(Debug, Default)]
pub(crate) struct EngineInfo {
    pub versions: BTreeMap<String, String>,
    pub default_runtime: Option<String>,
    /// By name, with the path of the program on the engine's machine if the engine reports it.
    pub runtimes: BTreeMap<String, Option<String>>,
    pub security: Vec<String>,
}

impl EngineInfo {
    /// Adds gVisor's version, if gVisor is in use and its program is on this machine too.
    async fn with_gvisor(mut self, configured: Option<&str>) -> EngineInfo {
        let used = configured.or(self.default_runtime.as_deref());
        let runtime = used.filter(|name| Kernel::from_runtime(name) == Kernel::Gvisor);
        let program = runtime.and_then(|name| self.runtimes.get(name)?.as_deref());
        if let Some(program) = program
            && let Some(version) = gvisor::version(program).await
        {
            self.versions.insert(GVISOR.to_owned(), version);
        }
        self
    }
}

/// Reads the engine's information and starts one real container to measure its isolation.
pub async fn docker_doctor(config: DockerConfig) -> DockerReport {
    let (host, configured) = (config.host.clone(), config.runtime.clone());
    let launcher = match DockerLauncher::start(config).await {
        Ok(launcher) => launcher,
        Err(error) => return DockerReport::unreachable(host, configured, &error),
    };
    let info = match launcher.client.info().await {
        Ok(info) => info.with_gvisor(configured.as_deref()).await,
        Err(error) => return DockerReport::unreachable(host, configured, &error),
    };
    match launcher.probe().await {
        Ok(isolation) => DockerReport::new(host, configured, info, None, Some(isolation)),
        Err(error) => {
            DockerReport::new(host, configured, info, Some(error_with_sources(&error)), None)
        }
    }
}

impl DockerReport {
    fn unreachable(
        host: String,
        configured: Option<String>,
        error: &crate::LaunchError,
    ) -> DockerReport {
        let problem = Some(error_with_sources(error));
        DockerReport::new(host, configured, EngineInfo::default(), problem, None)
    }

    fn new(
        host: String,
        configured: Option<String>,
        info: EngineInfo,
        problem: Option<String>,
        isolation: Option<Isolation>,
    ) -> DockerReport {
        let runtime = configured.or(info.default_runtime);
        let warnings =
            vulnerabilities::warnings(&info.versions, runtime.as_deref(), &info.security);
        DockerReport {
            host,
            versions: info.versions,
            runtime,
            runtimes: info.runtimes.into_keys().collect(),
            security: info.security,
            warnings,
            isolation,
            problem,
        }
    }

    /// True when skills can run on this engine.
    pub fn is_healthy(&self) -> bool {
        self.problem.is_none()
    }
}

impl fmt::Display for DockerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "engine        {}", self.host)?;
        for (component, version) in &self.versions {
            writeln!(f, "  {component:<11} {version}")?;
        }
        let runtime = self.runtime.as_deref().unwrap_or("unknown");
        writeln!(f, "runtime       {runtime} (the engine has {})", self.runtimes.join(", "))?;
        if let Some(isolation) = &self.isolation {
            writeln!(f, "\nisolation, measured in a container started just now")?;
            write_controls(f, isolation)?;
        }
        for warning in &self.warnings {
            writeln!(f, "\nwarning: {warning}")?;
        }
        match &self.problem {
            Some(problem) => writeln!(f, "\nproblem: {problem}"),
            None => writeln!(f, "\nskills can run here"),
        }
    }
}
