//! Rules of the architecture: which crate may depend on which (from `cargo metadata`), and that
//! only one file reads the environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// Our crates, and what each may depend on among them.
const EDGES: &[(&str, &[&str])] = &[
    // Of `runner` only a run without a server; of `sandbox` also what no server may hand out; of
    // `store` only what is measured of it, see `MEASURED`.
    // `catalogue` only for the schemas of a skill in a directory.
    (
        "cli",
        &[
            "catalogue", "client", "docker-proxy", "language", "mcp", "runner", "server", "skill",
            "sandbox", "store",
        ],
    ),
    (
        "server",
        &[
            "admission", "catalogue", "language", "mcp", "runner", "skill", "sandbox", "store",
            "blobs",
        ],
    ),
    ("runner", &["admission", "catalogue", "language", "skill", "sandbox", "store", "blobs"]),
    ("catalogue", &["admission", "skill", "store", "blobs"]),
    // Of `store` only what a tenant is.
    ("admission", &["store"]),
    ("sandbox", &["guest", "language"]),
    ("skill", &["language"]),
    // One table without logic of its own: any crate may use it.
    ("language", &[]),
    ("store", &[]),
    ("blobs", &[]),
    ("guest", &[]),
    ("client", &[]),
    ("docker-proxy", &[]),
    // What a skill is, so that its three sources need not say it in words of their own; not where
    // it is or how it runs.
    ("mcp", &["skill"]),
];

/// The crates in `testing/`, and the ones of our crates that each may depend on. Only tests may
/// depend on them.
const TESTING: &[(&str, &[&str])] = &[("cluster", &[])];

/// Dependencies, and the only crates that may know them.
const OWNERS: &[(&str, &[&str])] = &[
    ("axum", &["server", "cluster"]),
    ("hyper", &["server", "docker-proxy", "cluster"]),
    ("utoipa", &["server"]),
    ("sqlx", &["store"]),
    ("aws-sdk-s3", &["blobs"]),
    ("aws-sigv4", &["blobs"]),
    ("rmcp", &["mcp"]),
    ("bollard", &["sandbox"]),
    ("kube", &["sandbox"]),
    ("reqwest", &["client", "server"]),
];

/// Where the command line may know the store: nowhere but in what measures it.
const MEASURED: &str = "cli/src/commands/bench/store";

/// The only crate with unsafe code: it makes system calls that no library covers, between `clone` and
/// `exec`.
const UNSAFE: &str = "guest";

/// The only file of the product that may read the environment.
const ENVIRONMENT: &str = "server/src/config.rs";

/// Not configuration: PID 1 of a sandbox looks an interpreter up in the `PATH` that the launcher
/// gave it.
const INSIDE_THE_SANDBOX: &str = "guest/src/pid1/process.rs";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// None for normal ones, else `dev` or `build`.
    kind: Option<String>,
}

/// What is wrong with a graph, one sentence each. Tests may depend on whatever they like.
fn violations(packages: &[Package]) -> Vec<String> {
    let edges: BTreeMap<_, _> = EDGES.iter().chain(TESTING).copied().collect();
    let mut found = Vec::new();
    for package in packages {
        let Some(allowed) = edges.get(package.name.as_str()) else {
            found.push(format!("{} is not in the table of crates", package.name));
            continue;
        };
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
        {
            let name = dependency.name.as_str();
            if edges.contains_key(name) && !allowed.contains(&name) {
                found.push(format!("{} must not know {name}", package.name));
            }
            let owned = OWNERS.iter().find(|(crate_name, _)| *crate_name == name);
            if let Some((_, owners)) =
                owned.filter(|(_, owners)| !owners.contains(&package.name.as_str()))
            {
                found.push(format!(
                    "{name} belongs to {}, not to {}",
                    owners.join(" and "),
                    package.name
                ));
            }
        }
    }
    found
}

/// The lines of a source that read the environment, comments aside.
fn environment_reads(source: &str) -> usize {
    source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//") && line.contains("env::var"))
        .count()
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the crates directory")
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let test = path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
        if path.is_dir() && !test {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !test {
            found.push(path);
        }
    }
}

#[test]
fn every_edge_is_allowed() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("metadata");
    assert_eq!(
        metadata.packages.len(),
        EDGES.len() + TESTING.len(),
        "a crate of the table is missing"
    );
    assert_eq!(violations(&metadata.packages), Vec::<String>::new());
}

#[test]
fn the_command_line_knows_the_store_only_to_measure_it() {
    let crates = crates();
    let mut files = Vec::new();
    sources(&crates.join("cli/src"), &mut files);
    let knows = |path: &Path| std::fs::read_to_string(path).expect("a source").contains("store::");
    let knowing: Vec<_> = files.iter().filter(|path| knows(path)).collect();
    assert!(
        knowing.iter().any(|path| path.starts_with(crates.join(MEASURED))),
        "the search finds what is there"
    );
    // Its neighbour only hands over to it.
    let allowed = |path: &Path| {
        path.starts_with(crates.join(MEASURED))
            || path.starts_with(crates.join("cli/src/commands/bench"))
    };
    let strangers: Vec<_> = knowing
        .iter()
        .filter(|path| !allowed(path) && !path.ends_with("commands/bench.rs"))
        .collect();
    assert!(strangers.is_empty(), "the store is known in {strangers:?}");
}

#[test]
fn the_environment_is_read_in_one_file() {
    let crates = crates();
    let mut files = Vec::new();
    for (name, _) in EDGES {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let readers: Vec<_> = files
        .iter()
        .filter(|path| environment_reads(&std::fs::read_to_string(path).expect("a source")) > 0)
        .map(|path| path.strip_prefix(&crates).expect("inside").display().to_string())
        .collect();
    assert!(
        readers.iter().any(|path| path == ENVIRONMENT),
        "the search finds what is known to be there"
    );
    let strangers: Vec<_> = readers
        .iter()
        .filter(|path| ![ENVIRONMENT, INSIDE_THE_SANDBOX].contains(&path.as_str()))
        .collect();
    assert!(strangers.is_empty(), "the environment is read in {strangers:?}");
}

#[test]
fn unsafe_code_is_forbidden_outside_the_guest() {
    let repository = crates().join("..");
    let packages = EDGES.iter().map(|(name, _)| repository.join("crates").join(name));
    let testing = TESTING.iter().map(|(name, _)| repository.join("testing").join(name));
    for package in packages.chain(testing).filter(|package| !package.ends_with(UNSAFE)) {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| package.join(root));
        let roots: Vec<_> = roots.iter().filter(|root| root.exists()).collect();
        assert!(!roots.is_empty(), "{} has no root", package.display());
        for root in roots {
            let source = std::fs::read_to_string(root).expect("a source");
            let forbids = source.lines().any(|line| line == "#![forbid(unsafe_code)]");
            assert!(forbids, "{} does not forbid unsafe code", root.display());
        }
    }
}

fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
    let dependencies = dependencies
        .iter()
        .map(|(name, kind)| Dependency { name: (*name).into(), kind: kind.map(str::to_owned) });
    Package { name: name.into(), dependencies: dependencies.collect() }
}

#[test]
fn a_wrong_graph_is_found() {
    let graph = [
        package("skill", &[("store", None), ("serde", None)]),
        package("runner", &[("axum", None), ("store", None)]),
        package("client", &[("server", Some("build"))]),
        package("store", &[("sqlx", None), ("reqwest", Some("dev")), ("blobs", Some("dev"))]),
        package("cli", &[("blobs", None), ("cluster", None)]),
        package("sandbox", &[("cluster", Some("dev"))]),
        package("extra", &[]),
    ];
    assert_eq!(
        violations(&graph),
        [
            "skill must not know store",
            "axum belongs to server and cluster, not to runner",
            "client must not know server",
            "cli must not know blobs",
            "cli must not know cluster",
            "extra is not in the table of crates",
        ]
    );
}

#[test]
fn an_environment_read_is_found() {
    assert_eq!(environment_reads("let x = std::env::var(\"X\");\nlet y = env::var_os(\"Y\");"), 2);
    assert_eq!(
        environment_reads(
            "// std::env::var is for config.rs\nlet v = env!(\"CARGO_PKG_VERSION\");"
        ),
        0
    );
}
