//! Known vulnerabilities of the components under a Docker engine, by version.

use std::collections::BTreeMap;

use super::kernel::Kernel;

/// The name of gVisor among the components of an engine. The engine does not report its version.
pub(super) const GVISOR: &str = "gvisor";

type Version = [u32; 3];

/// A vulnerability that affects sandboxes.
struct KnownVulnerability {
    component: &'static str,
    /// The first fixed release of each maintained release line, in ascending order.
    fixed_in: &'static [Version],
    impact: &'static str,
}

const KNOWN_VULNERABILITIES: &[KnownVulnerability] = &[
    KnownVulnerability {
        component: "engine",
        fixed_in: &[[20, 10, 0]],
        impact: "it supports no version of the API that we use, and no cgroup v2",
    },
    KnownVulnerability {
        component: "runc",
        fixed_in: &[[1, 1, 12]],
        impact: "CVE-2024-21626: a container can reach the host through a leaked descriptor",
    },
    KnownVulnerability {
        component: "runc",
        fixed_in: &[[1, 2, 8], [1, 3, 3], [1, 4, 0]],
        impact: "CVE-2025-31133 and others: a container can write where its masked files are",
    },
    KnownVulnerability {
        component: "containerd",
        fixed_in: &[[1, 6, 38], [1, 7, 27], [2, 0, 4], [2, 1, 0]],
        impact: "CVE-2024-40635: an image's user can turn out to be root",
    },
    KnownVulnerability {
        component: GVISOR,
        fixed_in: &[[20240101, 0, 0]],
        impact: "CVE-2023-7258: a skill can crash its sandbox's kernel. Only gVisor's newest release is maintained",
    },
];

/// The warnings about these component versions, each with its impact.
pub(super) fn warnings(
    versions: &BTreeMap<String, String>,
    runtime: Option<&str>,
    security: &[String],
) -> Vec<String> {
    let mut warnings = Vec::new();
    for known in KNOWN_VULNERABILITIES.iter().filter(|known| applies_to(known.component, runtime)) {
        let Some(text) = versions.get(known.component) else { continue };
        if let Some(version) = parse_version(text)
            && !is_fixed(version, known.fixed_in)
        {
            let fixed: Vec<String> =
                known.fixed_in.iter().map(|version| format_version(*version)).collect();
            warnings.push(format!(
                "{} {text} is older than {}. {}. Update it, unless your distribution has fixed this in its own version.",
                known.component,
                fixed.join(", "),
                known.impact
            ));
        }
    }
    warnings.extend(kernel_warning(versions, runtime));
    if !versions.is_empty() && !security.iter().any(|option| option.contains("seccomp")) {
        warnings.push(
            "the engine was built without seccomp, so only the guest's own filter is in force."
                .to_owned(),
        );
    }
    warnings
}

fn kernel_warning(versions: &BTreeMap<String, String>, runtime: Option<&str>) -> Option<String> {
    let gvisor_version = versions.get(GVISOR).and_then(|text| parse_version(text));
    match runtime.map_or(Kernel::Shared, Kernel::from_runtime) {
        Kernel::Gvisor if gvisor_version.is_none() => Some(
            "the version of gVisor is unknown: the engine does not report it and the program is not on this machine. \
             `runsc --version` on the engine's machine shows it; only the newest release is maintained."
                .to_owned(),
        ),
        Kernel::Shared if !versions.is_empty() => Some(
            "containers share the engine's kernel, so a vulnerability in it is a way out. \
             SKILLBOX_DOCKER_RUNTIME=runsc (gVisor) or kata adds another kernel in between."
                .to_owned(),
        ),
        Kernel::Gvisor | Kernel::Kata | Kernel::Shared => None,
    }
}

/// Whether a vulnerability of this component matters for skills under this runtime.
fn applies_to(component: &str, runtime: Option<&str>) -> bool {
    match component {
        "runc" => runtime.is_none_or(|name| {
            name.contains("runc") && Kernel::from_runtime(name) == Kernel::Shared
        }),
        GVISOR => runtime.map(Kernel::from_runtime) == Some(Kernel::Gvisor),
        _ => true,
    }
}

/// The first three numbers of a version such as `20.10.24+dfsg1` or `v1.7.27`. gVisor's releases
/// are dates: `release-20241028.0` or, from Debian, `0.0~20221219.0`.
fn parse_version(text: &str) -> Option<Version> {
    let text = text.strip_prefix("release-").or_else(|| text.strip_prefix("0.0~")).unwrap_or(text);
    let mut numbers = text.trim_start_matches('v').splitn(3, '.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse().ok()
    });
    Some([numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)])
}

fn format_version(version: Version) -> String {
    version.map(|number| number.to_string()).join(".")
}

/// Whether a release has the fix: it is at least the fixed release of its own line or, if its line
/// has none, later than the last line that needed one.
fn is_fixed(version: Version, fixed_in: &[Version]) -> bool {
    let line = fixed_in.iter().find(|fixed| fixed[..2] == version[..2]);
    match line {
        Some(fixed) => version >= *fixed,
        None => fixed_in.last().is_some_and(|last| version >= *last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_warnings(components: &[(&str, &str)], runtime: &str) -> Vec<String> {
        let versions = components
            .iter()
            .map(|(component, version)| ((*component).to_owned(), (*version).to_owned()))
            .collect();
        let mut found =
            warnings(&versions, Some(runtime), &["name=seccomp,profile=builtin".to_owned()]);
        // That warning is about the kind of runtime and not about its version.
        found.retain(|warning| !warning.starts_with("containers share"));
        found
    }

    #[test]
    fn versions_of_distributions_are_parsed() {
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
            assert_eq!(parse_version(text), Some(version), "{text}");
        }
        for text in ["", "library-import", "x.y.z"] {
            assert_eq!(parse_version(text), None, "{text}");
        }
    }

    #[test]
    fn vulnerable_components_are_reported_with_the_impact() {
        let old = version_warnings(
            &[("engine", "19.3.5"), ("runc", "1.1.5+ds1"), ("containerd", "1.6.20~ds1")],
            "runc",
        );
        assert_eq!(old.len(), 4, "{old:#?}");
        assert!(
            old[0].starts_with("engine 19.3.5") && old[1].contains("CVE-2024-21626"),
            "{old:#?}"
        );
        let new = [("engine", "28.5.1"), ("runc", "1.3.3"), ("containerd", "2.1.4")];
        assert_eq!(version_warnings(&new, "runc"), Vec::<String>::new());
        for fixed in ["1.2.8", "1.4.0", "2.0.0"] {
            let found = version_warnings(&[("runc", fixed)], "runc");
            assert_eq!(found, Vec::<String>::new(), "{fixed}");
        }
        for vulnerable in ["1.1.15", "1.2.7", "1.3.0"] {
            let found = version_warnings(&[("runc", vulnerable)], "runc");
            assert_eq!(found.len(), 1, "{vulnerable}");
        }
    }

    #[test]
    fn only_runtimes_with_a_shared_kernel_are_warned_about() {
        let versions = [
            ("engine".to_owned(), "28.5.1".to_owned()),
            (GVISOR.to_owned(), "release-20261102.0".to_owned()),
        ];
        let warns = |runtime: &str| {
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
            assert_eq!(warns(runtime), is_shared, "{runtime}");
        }
    }

    #[test]
    fn only_vulnerabilities_of_the_used_runtime_are_reported() {
        let both = |gvisor| [("runc", "1.0.0"), (GVISOR, gvisor)];
        let current = version_warnings(&both("release-20261102.0"), "runsc");
        assert_eq!(current, Vec::<String>::new());
        let old = version_warnings(&both("0.0~20221219.0"), "runsc");
        assert!(old.len() == 1 && old[0].contains("CVE-2023-7258"), "{old:?}");
        let unused = version_warnings(&[("runc", "1.4.0"), (GVISOR, "0.0~20221219.0")], "runc");
        assert_eq!(unused, Vec::<String>::new());
        let unknown = version_warnings(&[("runc", "1.0.0")], "runsc-kvm");
        assert!(unknown.len() == 1 && unknown[0].contains("runsc --version"), "{unknown:?}");
    }
}
