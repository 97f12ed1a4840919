//! Every attack of `fixtures/hostile` ends as its `expect.json` says, and leaves nothing on the
//! machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use language::Language;
use sandbox::{Control, Job, Launcher, Outcome, RunReport, Shape};
use serde::Deserialize;
use serde_json::Value;

use crate::inventory::Inventory;
use crate::support::{
    Backend, MACHINE, MIB, RecordingSink, job, lacks_controls, native_launcher, on_every_backend,
    run_in, shape,
};

/// `expect.json`; the README of the fixtures documents the keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    #[serde(rename = "note")]
    _note: String,
    runtime: Option<Language>,
    memory_mib: Option<u64>,
    disk_mib: Option<u64>,
    inodes: Option<u64>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    needs: Vec<Control>,
    outcome: Outcome,
    /// Any of these instead of `outcome`, where it depends on timing.
    outcomes: Option<Vec<Outcome>>,
    status_ok: bool,
    #[serde(default, deserialize_with = "present")]
    output: Option<Value>,
    files: Option<Vec<String>>,
    file_count: Option<usize>,
    skipped: Option<Vec<String>>,
    skipped_count: Option<usize>,
    logs_truncated: Option<bool>,
    runs: Option<usize>,
}

/// Distinguishes `null`, which is an expectation, from a missing key.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

on_every_backend! {
    every_attack_ends_as_expected_and_leaves_nothing,
}

async fn every_attack_ends_as_expected_and_leaves_nothing(on: Backend) {
    let _machine = MACHINE.write().await;
    // The first launch on an engine copies the guest there, where it remains.
    let on_engine = if on == Backend::Native { None } else { Some(on.launcher().await) };
    if let Some(launcher) = &on_engine {
        launcher.probe().await.unwrap();
    }
    if on == Backend::Pod {
        wait_until_idle().await;
    }
    let canary = Canary::create();
    #[expect(clippy::disallowed_methods, reason = "to run a single fixture during development")]
    let only = std::env::var("SKILLBOX_FIXTURE").ok();
    let mut wrong = Vec::new();
    let mut tried = 0;
    for directory in fixtures() {
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        tried += 1;
        let before = Inventory::take().await;
        let began = std::time::Instant::now();
        let found = match &on_engine {
            Some(launcher) => attack(on, &**launcher, &directory, &name, &canary).await,
            // A separate launcher per attack, which is dropped before the inventory is taken.
            None => attack(on, &native_launcher(), &directory, &name, &canary).await,
        };
        println!(
            "{} {name}: {} ms, {}",
            on.name(),
            began.elapsed().as_millis(),
            if found.is_empty() { "as expected" } else { "WRONG" }
        );
        wrong.extend(found.into_iter().map(|what| format!("{name}: {what}")));
        let after = if on == Backend::Pod {
            wait_until_unchanged(&before).await
        } else {
            Inventory::take().await
        };
        if after != before {
            wrong.push(format!("{name}: left something: {before:#?} became {after:#?}"));
        }
    }
    assert!(tried > 0, "no fixture was found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The pod of the first launch ends some time after the API has removed it.
async fn wait_until_idle() {
    for _ in 0..200 {
        let now = Inventory::take().await;
        if now.processes.is_empty() && now.cgroups.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The API removes a pod before its node has ended it; what still exists after a while is a
/// leftover.
async fn wait_until_unchanged(before: &Inventory) -> Inventory {
    for _ in 0..200 {
        if Inventory::take().await == *before {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Inventory::take().await
}

fn fixtures() -> Vec<PathBuf> {
    let all =
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hostile")).unwrap();
    let mut directories: Vec<_> =
        all.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    directories.sort();
    directories
}

/// Runs one fixture the number of times that it specifies; returns the differences from its
/// expectation.
async fn attack(
    on: Backend,
    launcher: &dyn Launcher,
    directory: &Path,
    name: &str,
    canary: &Canary,
) -> Vec<String> {
    let mut expected = expected(on, directory);
    if lacks_controls(launcher, &expected.needs, name).await {
        return Vec::new();
    }
    if on == Backend::Native
        && expected.outcome == Outcome::TooManyProcesses
        && !counts_refused_forks(launcher).await
    {
        println!(
            "NEEDS ROOT: {name} ends as it must, but without a cgroup nothing counts refused forks to name them"
        );
        expected.outcome = Outcome::Exited;
    }
    let (shape, job) = plan(directory, &expected);
    let mut wrong = Vec::new();
    for _ in 0..expected.runs.unwrap_or(1) {
        let (ran, kept) = run_in(launcher, &shape, &job).await;
        wrong.extend(compare(&expected, &ran, &kept));
        if canary.is_in(&ran, &kept) {
            wrong.push("a secret of the host was returned".into());
        }
        wrong.extend(check_next_run(launcher).await);
    }
    wrong
}

/// Whether a cgroup enforces the process limit. An rlimit enforces it too, but does not count
/// rejected forks.
async fn counts_refused_forks(launcher: &dyn Launcher) -> bool {
    let isolation = launcher.probe().await.unwrap();
    isolation.controls.get(&Control::ProcessLimit).is_some_and(|how| how.starts_with("cgroup"))
}

/// The expectation on this backend: `on` has the differences, with their reason.
fn expected(on: Backend, directory: &Path) -> Expected {
    let mut all: Value =
        serde_json::from_slice(&fs::read(directory.join("expect.json")).unwrap()).unwrap();
    let differences = all.as_object_mut().unwrap().remove("on").unwrap_or_default();
    // Differences in containers also apply to those of pods.
    let kinds: &[&str] = if on == Backend::Native { &["native"] } else { &["docker", on.name()] };
    for difference in kinds.iter().filter_map(|kind| differences.get(kind)) {
        let mut difference = difference.as_object().unwrap().clone();
        assert!(
            difference.remove("why").is_some_and(|why| why.is_string()),
            "{directory:?} does not say why"
        );
        all.as_object_mut().unwrap().extend(difference);
    }
    serde_json::from_value(all).unwrap()
}

fn plan(directory: &Path, expected: &Expected) -> (Shape, Job) {
    let runtime = expected.runtime.unwrap_or(Language::Python);
    let script = ["main.py", "main.js", "main.sh"]
        .iter()
        .find_map(|name| fs::read_to_string(directory.join(name)).ok());
    let mut job = job(runtime, &script.expect("a fixture has a main.py, main.js or main.sh"));
    job.timeout = Duration::from_millis(expected.timeout_ms.unwrap_or(20_000));
    let mut shape = shape(runtime);
    shape.memory_bytes = expected.memory_mib.unwrap_or(128) * MIB;
    shape.disk_bytes = expected.disk_mib.unwrap_or(32) * MIB;
    shape.disk_inodes = expected.inodes.unwrap_or(4096);
    (shape, job)
}

fn compare(expected: &Expected, ran: &RunReport, kept: &RecordingSink) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |what: &str, holds: bool, found: String| {
        if !holds {
            wrong.push(format!(
                "{what}: found {found}; exit {:?}, log: {}",
                ran.exit_code,
                tail(&kept.text())
            ));
        }
    };
    let ok = ran.outcome == Outcome::Exited && ran.exit_code == Some(0);
    let outcomes = expected.outcomes.as_deref().unwrap_or(std::slice::from_ref(&expected.outcome));
    check("outcome", outcomes.contains(&ran.outcome), ran.outcome.to_string());
    check("status_ok", ok == expected.status_ok, ok.to_string());
    if let Some(output) = &expected.output {
        let found = ran
            .output
            .as_ref()
            .map(|bytes| serde_json::from_slice::<Value>(bytes).unwrap_or_default());
        let found = found.unwrap_or_default();
        check("output", contains(&found, output), found.to_string());
    }
    let skipped: Vec<_> = ran.skipped.iter().map(|skipped| skipped.path.as_str()).collect();
    let names = kept.names();
    let same = |wanted: &Option<Vec<String>>, found: &[&str]| {
        wanted.as_ref().is_none_or(|wanted| wanted == found)
    };
    check("files", same(&expected.files, &names), format!("{names:?}"));
    check(
        "file_count",
        expected.file_count.is_none_or(|count| count == names.len()),
        names.len().to_string(),
    );
    check("skipped", same(&expected.skipped, &skipped), format!("{skipped:?}"));
    check(
        "skipped_count",
        expected.skipped_count.is_none_or(|count| count == skipped.len()),
        format!("{skipped:?}"),
    );
    let cut = ran.logs_truncated;
    check(
        "logs_truncated",
        expected.logs_truncated.is_none_or(|wanted| wanted == cut),
        cut.to_string(),
    );
    check("log cap", kept.merged.len() as u64 <= MIB, kept.merged.len().to_string());
    wrong
}

/// Whether the value has all expected keys with their values.
fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| found.get(key) == Some(value))
        }
        _ => found == wanted,
    }
}

fn tail(log: &str) -> &str {
    let start = log.len().saturating_sub(600);
    &log[log.ceil_char_boundary(start)..]
}

/// Checks that a normal run directly after an attack succeeds on the same launcher.
async fn check_next_run(launcher: &dyn Launcher) -> Option<String> {
    let script = "test -z \"$(ls -A /tmp /workspace /sandbox/out/files)\" || ls -A /tmp /workspace; echo fine";
    let (ran, kept) = run_in(launcher, &shape(Language::Bash), &job(Language::Bash, script)).await;
    let fine = ran.exit_code == Some(0) && kept.text().ends_with("fine\n");
    (!fine).then(|| format!("the next run: {:?} {}", ran.outcome, kept.text()))
}

/// A secret on the host that must never be visible in a sandbox.
struct Canary {
    file: tempfile::NamedTempFile,
    secret: String,
}

impl Canary {
    fn create() -> Self {
        let secret = format!("{:016x}{:016x}", rand(), rand());
        let file = tempfile::Builder::new().prefix("skillbox-canary-").tempfile_in("/tmp").unwrap();
        fs::write(file.path(), &secret).unwrap();
        // SAFETY: only Rust code reads the environment of this process, under the standard
        // library's own lock.
        unsafe { std::env::set_var("SKILLBOX_CANARY", format!("skillbox-canary {secret}")) };
        Canary { file, secret }
    }

    fn is_in(&self, ran: &RunReport, kept: &RecordingSink) -> bool {
        assert!(self.file.path().exists());
        let texts = [&kept.merged[..], ran.output.as_deref().unwrap_or_default()];
        let texts = texts.into_iter().chain(kept.files.values().map(|bytes| &bytes[..]));
        let holds = |text: &[u8]| {
            text.windows(self.secret.len()).any(|window| window == self.secret.as_bytes())
        };
        texts.into_iter().any(holds)
    }
}

/// A number that a script cannot guess.
fn rand() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
