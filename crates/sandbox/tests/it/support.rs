//! Launchers of all backends, a job with the environment of a skill, and a sink that records
//! everything.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use language::Language;
use sandbox::{
    Control, DockerConfig, DockerLauncher, GuestError, Images, Job, JobFile, Launcher,
    NativeConfig, NativeLauncher, OutputLimits, OutputStream, Owner, RunReport, Shape, Sink,
    SinkError, StreamMode, paths,
};
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio_util::sync::CancellationToken;

pub(crate) const MIB: u64 = 1 << 20;

/// Locked for reading by tests that run sandboxes, and for writing by those that take an inventory
/// of the machine.
pub(crate) static MACHINE: RwLock<()> = RwLock::const_new(());

/// The backend that a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Native,
    /// Docker with runc.
    Runc,
    /// Docker with gVisor.
    Runsc,
    /// Pods of Kubernetes: of our stand-in for it, or of the real one that
    /// `SKILLBOX_TEST_CLUSTER_WORKER` leads to.
    Pod,
}

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Backend::Native => "native",
            Backend::Runc => "runc",
            Backend::Runsc => "runsc",
            Backend::Pod => "kubernetes",
        }
    }

    /// Whether the backend is available. If not, prints a line that the test summary repeats.
    pub(crate) fn is_available(self, test: &str) -> bool {
        match self {
            Backend::Native => true,
            Backend::Pod => crate::pods::is_available(test),
            Backend::Runc | Backend::Runsc => {
                let here = test_engine().is_some();
                if !here {
                    println!(
                        "NEEDS ENGINE: {test} was not run on {}: SKILLBOX_TEST_ENGINE names no engine",
                        self.name()
                    );
                }
                here
            }
        }
    }

    /// Starts a launcher, a separate one for each test.
    pub(crate) async fn launcher(self) -> Box<dyn Launcher> {
        match self {
            Backend::Native => Box::new(native_launcher()),
            Backend::Runc => Box::new(DockerLauncher::start(docker_config(None)).await.unwrap()),
            Backend::Runsc => {
                Box::new(DockerLauncher::start(docker_config(Some("runsc"))).await.unwrap())
            }
            Backend::Pod => Box::new(crate::pods::Pods::start().await),
        }
    }
}

/// Generates one test per backend from a function that takes a `Backend`.
macro_rules! on_every_backend {
    ($($test:ident),* $(,)?) => {
        crate::support::on_every_backend!(@ native Native $($test)*);
        crate::support::on_every_backend!(@ runc Runc $($test)*);
        crate::support::on_every_backend!(@ runsc Runsc $($test)*);
        crate::support::on_every_backend!(@ kubernetes Pod $($test)*);
    };
    (@ $module:ident $backend:ident $($test:ident)*) => {
        mod $module {
            $(#[tokio::test]
            async fn $test() {
                if crate::support::Backend::$backend.is_available(stringify!($test)) {
                    super::$test(crate::support::Backend::$backend).await;
                }
            })*
        }
    };
}
pub(crate) use on_every_backend;

/// The engine to test on, which `scripts/test.sh` starts.
pub(crate) fn test_engine() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "how the test scripts say where their engine is")]
    std::env::var("SKILLBOX_TEST_ENGINE").ok().filter(|host| !host.is_empty())
}

/// How launchers reach it: through a `skillbox docker-proxy` if one is named, so that the same
/// tests try that too.
pub(crate) fn engine_address() -> Option<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "who starts a proxy for the tests says where it is"
    )]
    let proxy = std::env::var("SKILLBOX_TEST_PROXY").ok().filter(|host| !host.is_empty());
    proxy.or_else(test_engine)
}

pub(crate) fn owner() -> Owner {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    Owner(format!("test-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed)))
}

/// Dropping the launcher ends its process.
pub(crate) fn native_launcher() -> NativeLauncher {
    NativeLauncher::start(native_config()).unwrap()
}

pub(crate) fn native_config() -> NativeConfig {
    #[expect(
        clippy::disallowed_methods,
        reason = "the interpreters that the developer uses are those to test"
    )]
    let search_path = std::env::var_os("PATH");
    NativeConfig { owner: owner(), processes: 1, require: vec![], search_path }
}

pub(crate) fn docker_config(runtime: Option<&str>) -> DockerConfig {
    let image = |language| format!("skillbox/{language}:test");
    let images = Images::new(image);
    DockerConfig {
        owner: owner(),
        host: engine_address().unwrap(),
        runtime: runtime.map(str::to_owned),
        lifetime: Duration::from_secs(600),
        allowlist: Language::ALL.map(image).to_vec(),
        images,
        require: vec![],
    }
}

/// Whether this machine does not enforce one of these controls; prints a line for the test summary
/// then.
pub(crate) async fn lacks_controls(launcher: &dyn Launcher, needs: &[Control], what: &str) -> bool {
    let missing = launcher.probe().await.unwrap().missing();
    let lacking: Vec<_> =
        needs.iter().filter(|control| missing.contains(control)).map(|c| c.as_str()).collect();
    if !lacking.is_empty() {
        println!(
            "NEEDS ROOT: {what} was not run, because this machine does not enforce {}",
            lacking.join(", ")
        );
    }
    !lacking.is_empty()
}

pub(crate) fn shape(language: Language) -> Shape {
    Shape {
        language,
        image: None,
        memory_bytes: 128 * MIB,
        cpu_millis: 1000,
        pids: 64,
        disk_bytes: 32 * MIB,
        disk_inodes: 4096,
    }
}

/// A job that runs `script` like a skill's entrypoint.
pub(crate) fn job(language: Language, script: &str) -> Job {
    let spec = language.spec();
    let path = format!("{}/{}", paths::SCRIPTS, spec.default_entrypoints[0]);
    let env = [
        ("SANDBOX_INPUT", "{}"),
        ("SANDBOX_OUTPUT", paths::OUTPUT_JSON),
        ("SANDBOX_FILES_DIR", "/sandbox/out/files/"),
        ("SANDBOX_INPUT_DIR", paths::INPUT_DIR),
        ("HOME", paths::TMP),
        ("LANG", "C.UTF-8"),
    ];
    Job {
        files: vec![file(&path, script), file(paths::INPUT_JSON, "{}")],
        streamed: Vec::new(),
        links: vec![("/skills/test".into(), paths::SCRIPTS.into())],
        argv: vec![spec.program.into(), path],
        env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
        cwd: paths::SANDBOX.into(),
        stdin: None,
        streams: StreamMode::Merged,
        output_limits: OutputLimits {
            log_bytes: MIB,
            output_bytes: MIB,
            artifact_bytes: 256 * MIB,
            artifact_files: 1000,
        },
        timeout: Duration::from_secs(20),
    }
}

pub(crate) fn file(path: &str, text: &str) -> JobFile {
    JobFile { path: path.into(), bytes: Bytes::copy_from_slice(text.as_bytes()), executable: false }
}

/// Records everything that a run returns.
#[derive(Default)]
pub(crate) struct RecordingSink {
    pub merged: Vec<u8>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub files: BTreeMap<String, Vec<u8>>,
    writing: Option<(String, u64, Vec<u8>)>,
    /// Cancelled when the first log bytes arrive.
    pub stop_on_log: Option<CancellationToken>,
}

impl RecordingSink {
    /// A sink that cancels `token` when the first log bytes arrive.
    pub(crate) fn cancel_on_log(token: CancellationToken) -> RecordingSink {
        RecordingSink { stop_on_log: Some(token), ..RecordingSink::default() }
    }

    /// The merged log as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.merged).into_owned()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.files.keys().map(String::as_str).collect()
    }
}

#[async_trait]
impl Sink for RecordingSink {
    async fn log(&mut self, stream: OutputStream, bytes: &[u8]) {
        if let Some(stop) = &self.stop_on_log {
            stop.cancel();
        }
        match stream {
            OutputStream::Merged => self.merged.extend_from_slice(bytes),
            OutputStream::Stdout => self.stdout.extend_from_slice(bytes),
            OutputStream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }

    async fn file_start(&mut self, path: &str, size: u64) -> Result<(), SinkError> {
        assert!(self.writing.is_none(), "a file starts inside another");
        self.writing = Some((path.to_owned(), size, Vec::new()));
        Ok(())
    }

    async fn file_chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.writing.as_mut().unwrap().2.extend_from_slice(bytes);
        Ok(())
    }

    async fn file_end(&mut self) -> Result<(), SinkError> {
        let (path, size, bytes) = self.writing.take().unwrap();
        assert_eq!(bytes.len() as u64, size, "{path}");
        assert!(self.files.insert(path, bytes).is_none(), "a file came twice");
        Ok(())
    }
}

/// Runs one job in a new sandbox of `launcher`.
pub(crate) async fn run_in(
    launcher: &dyn Launcher,
    shape: &Shape,
    job: &Job,
) -> (RunReport, RecordingSink) {
    let guest = launcher.launch(shape).await.unwrap();
    let mut kept = RecordingSink::default();
    let ran = guest.run(job, CancellationToken::new(), &mut kept).await.unwrap();
    (ran, kept)
}

/// The same for a job that may fail to run.
pub(crate) async fn try_run(
    on: Backend,
    language: Language,
    job: &Job,
) -> (Result<RunReport, GuestError>, RecordingSink) {
    let _machine: RwLockReadGuard<'_, ()> = MACHINE.read().await;
    let mut kept = RecordingSink::default();
    let guest = on.launcher().await.launch(&shape(language)).await.expect("a guest");
    let ran = guest.run(job, CancellationToken::new(), &mut kept).await;
    (ran, kept)
}

/// Runs one job on a new launcher.
pub(crate) async fn run(on: Backend, language: Language, job: &Job) -> (RunReport, RecordingSink) {
    let _machine: RwLockReadGuard<'_, ()> = MACHINE.read().await;
    run_in(&*on.launcher().await, &shape(language), job).await
}
