//! What a Docker engine offers to sandboxes, and what is known to be wrong with its parts, for a
//! person to read.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::runtime::Kernel;
use super::{DockerConfig, DockerLauncher, gvisor};
use crate::isolation::{Control, Isolation};
use crate::launcher::Launcher;

/// The findings; `problem` is set when nothing can run on this engine.
#[derive(Debug, Serialize)]
pub struct DockerReport {
    pub host: String,
    /// Version of each part: the engine, and what it says of containerd, runc and others.
    pub versions: BTreeMap<String, String>,
    /// The OCI runtime that skills run with, and the ones the engine knows.
    pub runtime: Option<String>,
    pub runtimes: Vec<String>,
    pub security: Vec<String>,
    pub warnings: Vec<String>,
    pub isolation: Option<Isolation>,
    pub problem: Option<String>,
}

/// What an engine says about itself.
#[derive(Debug, Default)]
pub struct Facts {
    pub versions: BTreeMap<String, String>,
    pub default_runtime: Option<String>,
    /// Each with its program on the engine's machine, where the engine tells it.
    pub runtimes: BTreeMap<String, Option<String>>,
    pub security: Vec<String>,
}

impl Facts {
    /// With gVisor's version, if it is in use and its program is on this machine too.
    async fn with_gvisor(mut self, wanted: Option<&str>) -> Facts {
        let wanted = wanted.or(self.default_runtime.as_deref());
        let runtime = wanted.filter(|name| Kernel::under(name) == Kernel::Gvisor);
        let program = runtime.and_then(|name| self.runtimes.get(name)?.as_deref());
        if let Some(program) = program
            && let Some(version) = gvisor::version(program).await
        {
            self.versions.insert(GVISOR.to_owned(), version);
        }
        self
    }
}

type Version = [u32; 3];

/// A release of a part with a hole that matters to us, closed from these releases on (one for each
/// line that is looked after).
struct Floor {
    part: &'static str,
    closed_in: &'static [Version],
    meaning: &'static str,
}

const FLOORS: &[Floor] = &[
    Floor {
        part: "engine",
        closed_in: &[[20, 10, 0]],
        meaning: "it speaks no version of the API that we use, and knows no cgroup v2",
    },
    Floor {
        part: "runc",
        closed_in: &[[1, 1, 12]],
        meaning: "CVE-2024-21626: a container can reach the host through a leaked descriptor",
    },
    Floor {
        part: "runc",
        closed_in: &[[1, 2, 8], [1, 3, 3], [1, 4, 0]],
        meaning: "CVE-2025-31133 and others: a container can write where its masked files are",
    },
    Floor {
        part: "containerd",
        closed_in: &[[1, 6, 38], [1, 7, 27], [2, 0, 4], [2, 1, 0]],
        meaning: "CVE-2024-40635: an image's user can turn out to be root",
    },
    Floor {
        part: GVISOR,
        closed_in: &[[20240101, 0, 0]],
        meaning: "CVE-2023-7258: a skill can crash its sandbox's kernel. Only gVisor's newest release is looked after",
    },
];

/// What gVisor is called among the parts of an engine, which itself does not know the version.
pub const GVISOR: &str = "gvisor";

/// Asks the engine about itself and makes one real container to see what holds in it.
pub async fn docker_doctor(config: DockerConfig) -> DockerReport {
    let (host, wanted) = (config.host.clone(), config.runtime.clone());
    let launcher = match DockerLauncher::start(config).await {
        Ok(launcher) => launcher,
        Err(error) => {
            return DockerReport::new(host, wanted, Facts::default(), Some(told(&error)), None);
        }
    };
    let facts = match launcher.engine.facts().await {
        Ok(facts) => facts.with_gvisor(wanted.as_deref()).await,
        Err(error) => {
            return DockerReport::new(host, wanted, Facts::default(), Some(told(&error)), None);
        }
    };
    match launcher.probe().await {
        Ok(isolation) => DockerReport::new(host, wanted, facts, None, Some(isolation)),
        Err(error) => DockerReport::new(host, wanted, facts, Some(told(&error)), None),
    }
}

fn told(error: &crate::LaunchError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if !text.contains(&inner.to_string()) {
            text.push_str(&format!(": {inner}"));
        }
        source = inner.source();
    }
    text
}

impl DockerReport {
    fn new(
        host: String,
        wanted: Option<String>,
        facts: Facts,
        problem: Option<String>,
        isolation: Option<Isolation>,
    ) -> DockerReport {
        let runtime = wanted.or(facts.default_runtime);
        let warnings = warnings(&facts.versions, runtime.as_deref(), &facts.security);
        DockerReport {
            host,
            versions: facts.versions,
            runtime,
            runtimes: facts.runtimes.into_keys().collect(),
            security: facts.security,
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

/// What is known to be wrong, each with what it means.
fn warnings(
    versions: &BTreeMap<String, String>,
    runtime: Option<&str>,
    security: &[String],
) -> Vec<String> {
    let mut warnings = Vec::new();
    for floor in FLOORS.iter().filter(|floor| concerns(floor.part, runtime)) {
        let Some(text) = versions.get(floor.part) else { continue };
        if let Some(version) = parse(text)
            && !is_closed(version, floor.closed_in)
        {
            let fixed: Vec<String> =
                floor.closed_in.iter().map(|version| spell(*version)).collect();
            warnings.push(format!(
                "{} {text} is older than {}. {}. Update it, unless your distribution has closed this in its own version.",
                floor.part,
                fixed.join(", "),
                floor.meaning
            ));
        }
    }
    match runtime.map_or(Kernel::Shared, Kernel::under) {
        Kernel::Gvisor if versions.get(GVISOR).and_then(|text| parse(text)).is_none() => warnings.push(
            "the version of gVisor is not known: the engine does not tell it and the program is not on this machine. \
             `runsc --version` where the engine runs shows it; only the newest release is looked after."
                .to_owned(),
        ),
        Kernel::Shared if !versions.is_empty() => warnings.push(
            "containers share the engine's kernel, and a hole in it is a way out. SKILLBOX_DOCKER_RUNTIME=runsc (gVisor) \
             or kata puts another kernel in between."
                .to_owned(),
        ),
        Kernel::Gvisor | Kernel::Kata | Kernel::Shared => {}
    }
    if !versions.is_empty() && !security.iter().any(|option| option.contains("seccomp")) {
        warnings.push(
            "the engine was built without seccomp, so only the guest's own filter is in force."
                .to_owned(),
        );
    }
    warnings
}

/// Flaws of one runtime are none of a skill's that runs under another.
fn concerns(part: &str, runtime: Option<&str>) -> bool {
    match part {
        "runc" => runtime
            .is_none_or(|name| name.contains("runc") && Kernel::under(name) == Kernel::Shared),
        GVISOR => runtime.map(Kernel::under) == Some(Kernel::Gvisor),
        _ => true,
    }
}

/// The first three numbers of a version such as `20.10.24+dfsg1` or `v1.7.27`. Releases of gVisor
/// are days, written `release-20241028.0` or, by Debian, `0.0~20221219.0`.
fn parse(text: &str) -> Option<Version> {
    let text = text.strip_prefix("release-").or_else(|| text.strip_prefix("0.0~")).unwrap_or(text);
    let mut numbers = text.trim_start_matches('v').splitn(3, '.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse().ok()
    });
    Some([numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)])
}

fn spell(version: Version) -> String {
    version.map(|number| number.to_string()).join(".")
}

/// Whether a release has the fix: the one of its own line, or it is of a later line than the last
/// one that needed it.
fn is_closed(version: Version, closed_in: &[Version]) -> bool {
    let line = closed_in.iter().find(|fixed| fixed[..2] == version[..2]);
    match line {
        Some(fixed) => version >= *fixed,
        None => closed_in.last().is_some_and(|last| version >= *last),
    }
}

impl fmt::Display for DockerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "engine        {}", self.host)?;
        for (part, version) in &self.versions {
            writeln!(f, "  {part:<11} {version}")?;
        }
        let runtime = self.runtime.as_deref().unwrap_or("unknown");
        writeln!(f, "runtime       {runtime} (the engine knows {})", self.runtimes.join(", "))?;
        if let Some(isolation) = &self.isolation {
            writeln!(f, "\nisolation, measured in a container made just now")?;
            for control in Control::ALL {
                match isolation.controls.get(&control) {
                    Some(how) => writeln!(f, "  ok   {control:<20} {how}")?,
                    None => writeln!(f, "  --   {control:<20} not there")?,
                }
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(parts: &[(&str, &str)], runtime: &str) -> Vec<String> {
        let versions = parts
            .iter()
            .map(|(part, version)| ((*part).to_owned(), (*version).to_owned()))
            .collect();
        let mut found =
            warnings(&versions, Some(runtime), &["name=seccomp,profile=builtin".to_owned()]);
        // About the kind of runtime, and not about its version.
        found.retain(|warning| !warning.starts_with("containers share"));
        found
    }

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        for (text, version) in [
            ("20.10.24+dfsg1", [20, 10, 24]),
            ("1.1.5+ds1", [1, 1, 5]),
            ("v1.7.27", [1, 7, 27]),
            ("27.0.1-rc.1", [27, 0, 1]),
            ("1.6.20~ds1", [1, 6, 20]),
            ("2.0", [2, 0, 0]),
            ("release-20241028.0", [20241028, 0, 0]),
            ("0.0~20221219.0", [20221219, 0, 0]),
        ] {
            assert_eq!(parse(text), Some(version), "{text}");
        }
        assert_eq!((parse(""), parse("library-import"), parse("x.y.z")), (None, None, None));
    }

    #[test]
    fn old_parts_are_named_with_what_it_means() {
        let old = found(
            &[("engine", "19.3.5"), ("runc", "1.1.5+ds1"), ("containerd", "1.6.20~ds1")],
            "runc",
        );
        assert_eq!(old.len(), 4, "{old:#?}");
        assert!(
            old[0].starts_with("engine 19.3.5") && old[1].contains("CVE-2024-21626"),
            "{old:#?}"
        );
        let new = [("engine", "28.5.1"), ("runc", "1.3.3"), ("containerd", "2.1.4")];
        assert_eq!(found(&new, "runc"), Vec::<String>::new());
        for closed in ["1.2.8", "1.4.0", "2.0.0"] {
            assert_eq!(found(&[("runc", closed)], "runc"), Vec::<String>::new(), "{closed}");
        }
        for open in ["1.1.15", "1.2.7", "1.3.0"] {
            assert_eq!(found(&[("runc", open)], "runc").len(), 1, "{open}");
        }
    }

    #[test]
    fn a_shared_kernel_is_warned_about_where_it_is_shared() {
        let versions = [
            ("engine".to_owned(), "28.5.1".to_owned()),
            (GVISOR.to_owned(), "release-20261102.0".to_owned()),
        ];
        let shares = |runtime: &str| {
            let security = ["name=seccomp,profile=builtin".to_owned()];
            let warnings = warnings(&versions.clone().into(), Some(runtime), &security);
            warnings
                .iter()
                .any(|warning| warning.starts_with("containers share the engine's kernel"))
        };
        for (runtime, is_shared) in [
            ("runc", true),
            ("crun", true),
            ("runsc", false),
            ("kata", false),
            ("kata-qemu", false),
        ] {
            assert_eq!(shares(runtime), is_shared, "{runtime}");
        }
    }

    #[test]
    fn another_runtime_has_other_flaws() {
        let both = |gvisor| [("runc", "1.0.0"), (GVISOR, gvisor)];
        assert_eq!(found(&both("release-20261102.0"), "runsc"), Vec::<String>::new());
        let old = found(&both("0.0~20221219.0"), "runsc");
        assert!(old.len() == 1 && old[0].contains("CVE-2023-7258"), "{old:?}");
        assert_eq!(
            found(&[("runc", "1.4.0"), (GVISOR, "0.0~20221219.0")], "runc"),
            Vec::<String>::new()
        );
        let unknown = found(&[("runc", "1.0.0")], "runsc-kvm");
        assert!(unknown.len() == 1 && unknown[0].contains("runsc --version"), "{unknown:?}");
    }
}
