//! The launcher of sandboxes itself, through the proxy, to a real engine.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use docker_proxy::{Address, PROXY_LABEL};
use language::Language;
use sandbox::{
    DockerConfig, DockerLauncher, Images, Job, Launcher, OutputLimits, OutputStream, Owner, Shape,
    Sink, SinkError, StreamMode,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::life::DirectEngine;
use crate::support::engine::{FakeEngine, IMAGE_ID, VOLUME};
use crate::support::filter::UrlFilter;
use crate::support::{INSTANCE, RunningProxy};

/// What a script said.
#[derive(Default)]
struct CollectedLog(Vec<u8>);

#[async_trait]
impl Sink for CollectedLog {
    async fn log(&mut self, _: OutputStream, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    async fn file_start(&mut self, _: &str, _: u64) -> Result<(), SinkError> {
        Ok(())
    }

    async fn file_chunk(&mut self, _: &[u8]) -> Result<(), SinkError> {
        Ok(())
    }

    async fn file_end(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn shape(language: Language) -> Shape {
    let (memory_bytes, disk_bytes, pids) = (128 << 20, 32 << 20, 64);
    Shape {
        language,
        image: None,
        memory_bytes,
        cpu_millis: 1000,
        pids,
        disk_bytes,
        disk_inodes: 4096,
    }
}

fn job(argv: &[&str]) -> Job {
    Job {
        files: vec![],
        streamed: vec![],
        links: vec![],
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: vec![],
        cwd: "/sandbox".into(),
        stdin: Some("from outside".into()),
        streams: StreamMode::Merged,
        output_limits: OutputLimits {
            log_bytes: 1 << 20,
            output_bytes: 1 << 20,
            artifact_bytes: 1 << 20,
            artifact_files: 10,
        },
        timeout: Duration::from_secs(30),
    }
}

fn image(language: Language) -> String {
    format!("skillbox/{language}:test")
}

async fn launcher(host: &Address, runtime: Option<&str>, owner: Owner) -> DockerLauncher {
    let images = Images::new(image);
    let config = DockerConfig {
        owner,
        host: host.to_string(),
        runtime: runtime.map(str::to_owned),
        lifetime: Duration::from_secs(600),
        allowlist: Language::ALL.map(image).to_vec(),
        images,
        require: vec![],
    };
    DockerLauncher::start(config).await.expect("a launcher")
}

/// A proxy that insists on what this version's launcher sends.
async fn proxy(engine: Address, instance: &str) -> RunningProxy {
    RunningProxy::start(engine, |config| {
        config.policy.instance = format!("{instance}-{}", std::process::id());
        config.policy.images = Language::ALL.map(image).to_vec();
        // The command's default: the kernel of gVisor has threads of its own, which count too.
        config.policy.max_pids = 2048;
        config.policy.seccomp = vec![sandbox::seccomp_profile()];
        config.policy.filler = sandbox::FILLER_ENTRYPOINT.map(str::to_owned).to_vec();
    })
    .await
}

/// A launcher by a way of its own to the engine. What it made there goes away with it, however a
/// test ends.
struct ProxiedLauncher {
    launcher: Option<DockerLauncher>,
    engine: DirectEngine,
    /// What the names of its volumes end with: the digest of the way.
    suffix: String,
    owner: String,
}

impl ProxiedLauncher {
    async fn new(engine: DirectEngine, host: &Address, runtime: Option<&str>) -> ProxiedLauncher {
        let digest = Sha256::digest(host.to_string());
        let suffix: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let owner = format!("proxied-{suffix}");
        let launcher = Some(launcher(host, runtime, Owner(owner.clone())).await);
        ProxiedLauncher { launcher, engine, suffix, owner }
    }

    async fn run_output(&self, language: Language, argv: &[&str]) -> String {
        let launcher = self.launcher.as_ref().expect("a launcher");
        let guest = launcher.launch(&shape(language)).await.expect("a guest");
        let mut collected = CollectedLog::default();
        let ran =
            guest.run(&job(argv), CancellationToken::new(), &mut collected).await.expect("a run");
        assert_eq!(ran.exit_code, Some(0), "{ran:?}");
        String::from_utf8_lossy(&collected.0).into_owned()
    }

    fn containers(&self) -> Vec<Value> {
        let filter = format!("%7B%22label%22%3A%5B%22skillbox.owner%3D{}%22%5D%7D", self.owner);
        let found = self.listed(&format!("/containers/json?all=1&filters={filter}"));
        found.as_array().into_iter().flatten().cloned().collect()
    }

    fn volumes(&self) -> Vec<Value> {
        let found = self.listed("/volumes");
        let ours = |volume: &&Value| {
            volume["Name"].as_str().is_some_and(|name| name.ends_with(&self.suffix))
        };
        found["Volumes"].as_array().into_iter().flatten().filter(ours).cloned().collect()
    }

    fn listed(&self, target: &str) -> Value {
        let answer = self.engine.try_ask("GET", target, "");
        answer.ok().and_then(|answer| serde_json::from_str(&answer.body).ok()).unwrap_or_default()
    }
}

impl Drop for ProxiedLauncher {
    fn drop(&mut self) {
        self.launcher = None;
        let paths = |found: Vec<Value>, key: &str, kind: &str, rest: &str| -> Vec<String> {
            found
                .iter()
                .filter_map(|one| Some(format!("/{kind}/{}{rest}", one[key].as_str()?)))
                .collect()
        };
        let containers = paths(self.containers(), "Id", "containers", "?force=1");
        let volumes = paths(self.volumes(), "Name", "volumes", "");
        self.engine.leftovers.extend(containers.into_iter().chain(volumes));
    }
}

async fn every_runtime_runs(
    engine: DirectEngine,
    proxy: &RunningProxy,
    instance: &str,
    runtime: Option<&str>,
) {
    let proxied = ProxiedLauncher::new(engine, &proxy.address, runtime).await;
    assert_eq!(
        proxied.run_output(Language::Bash, &["bash", "-c", "cat; echo \" $UID\""]).await,
        "from outside 65534\n"
    );
    let python = "import sys; print(sys.stdin.read().upper())";
    assert_eq!(
        proxied.run_output(Language::Python, &["python3", "-c", python]).await,
        "FROM OUTSIDE\n"
    );
    assert_eq!(
        proxied.run_output(Language::Node, &["node", "-e", "console.log(1 + 1)"]).await,
        "2\n"
    );
    let launcher = proxied.launcher.as_ref().expect("a launcher");
    launcher.probe().await.expect("a probe");
    assert_eq!(launcher.sweep(&Owner("another".into())).await.expect("a sweep"), 0);
    assert_eq!(proxied.containers(), Vec::<Value>::new());
    let labels: Vec<_> =
        proxied.volumes().iter().map(|volume| volume["Labels"][PROXY_LABEL].clone()).collect();
    assert_eq!(
        labels,
        [format!("{instance}-{}", std::process::id())],
        "one volume, with our label"
    );
}

/// A body as the launcher's own tests keep it.
fn snapshot(name: &str) -> Value {
    let path = format!("../sandbox/src/docker/snapshots/sandbox__docker__body__tests__{name}.snap");
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .expect("a snapshot");
    let mut body: Value =
        serde_json::from_str(text.splitn(3, "---\n").nth(2).expect("a body")).expect("JSON");
    let profile = &mut body["HostConfig"]["SecurityOpt"][1];
    assert_eq!(profile, "seccomp=…", "the launcher's tests cut it");
    *profile = format!("seccomp={}", sandbox::seccomp_profile()).into();
    body["HostConfig"]["Mounts"][0]["Source"] = VOLUME.into();
    body["Image"] = IMAGE_ID.into();
    body
}

#[tokio::test]
async fn the_launchers_bodies_are_accepted_unchanged() {
    let engine = FakeEngine::start().await;
    let proxy = RunningProxy::start(engine.address(), |config| {
        config.policy.seccomp = vec![sandbox::seccomp_profile()];
        config.policy.filler = sandbox::FILLER_ENTRYPOINT.map(str::to_owned).to_vec();
    })
    .await;
    for name in ["a_sandbox", "a_filler"] {
        let mut body = snapshot(name);
        let answer = proxy.create(&body).await;
        assert_eq!(answer.status, 201, "{name}: {answer:?}");
        body["Labels"][PROXY_LABEL] = INSTANCE.into();
        assert_eq!(engine.last().json(), body);
    }
}

#[tokio::test]
async fn every_runtime_runs_through_the_proxy() {
    let Some(engine) = DirectEngine::find("every_runtime_runs_through_the_proxy") else { return };
    let proxy = proxy(engine.address(), "launcher").await;
    every_runtime_runs(engine, &proxy, "launcher", None).await;
}

/// A filler that is killed leaves its file in the volume. The next one removes it, unless it may
/// still be at work.
#[tokio::test]
async fn a_filler_removes_old_leftovers_of_killed_ones() {
    let Some(engine) = DirectEngine::find("a_filler_removes_old_leftovers_of_killed_ones") else {
        return;
    };
    let proxy = proxy(engine.address(), "fillers").await;
    let mut proxied = ProxiedLauncher::new(engine, &proxy.address, None).await;
    assert_eq!(proxied.run_output(Language::Bash, &["bash", "-c", "echo 1"]).await, "1\n");
    let volumes = proxied.volumes();
    let place =
        Path::new(volumes[0]["Mountpoint"].as_str().expect("a place on this machine")).to_owned();
    let leave = |name: &str, age: Duration| {
        let file = std::fs::File::create(place.join(name))
            .expect("the engine's volume is a directory here");
        file.set_modified(std::time::SystemTime::now() - age).expect("its time");
    };
    leave("skillbox-fill-killed", Duration::from_secs(3600));
    leave("skillbox-fill-at-work", Duration::from_secs(60));
    let left = || {
        let names = std::fs::read_dir(&place).expect("a directory").flatten();
        let mut names: Vec<_> =
            names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    };
    // The control: while nothing is filled, nothing is removed.
    assert_eq!(proxied.run_output(Language::Bash, &["bash", "-c", "echo 2"]).await, "2\n");
    assert_eq!(left(), ["skillbox-fill-at-work", "skillbox-fill-killed", "skillbox-guest"]);
    // A worker that starts fills the volume again.
    proxied.launcher = Some(launcher(&proxy.address, None, Owner(proxied.owner.clone())).await);
    assert_eq!(proxied.run_output(Language::Bash, &["bash", "-c", "echo 3"]).await, "3\n");
    assert_eq!(left(), ["skillbox-fill-at-work", "skillbox-guest"]);
}

#[tokio::test]
async fn every_runtime_runs_with_gvisor() {
    let Some(engine) = DirectEngine::find("every_runtime_runs_with_gvisor") else { return };
    let proxy = proxy(engine.address(), "gvisor").await;
    every_runtime_runs(engine, &proxy, "gvisor", Some("runsc")).await;
}

#[tokio::test]
async fn every_runtime_runs_behind_a_url_filter() {
    let Some(engine) = DirectEngine::find("every_runtime_runs_behind_a_url_filter") else { return };
    let filter = UrlFilter::start(engine.address()).await;
    let proxy = proxy(filter.address(), "filtered").await;
    every_runtime_runs(engine, &proxy, "filtered", None).await;
}

#[tokio::test]
async fn the_launcher_works_with_a_url_filter_alone() {
    let Some(engine) = DirectEngine::find("the_launcher_works_with_a_url_filter_alone") else {
        return;
    };
    let filter = UrlFilter::start(engine.address()).await;
    let proxied = ProxiedLauncher::new(engine, &filter.address(), None).await;
    assert_eq!(proxied.run_output(Language::Bash, &["bash", "-c", "cat"]).await, "from outside");
    assert_eq!((proxied.containers().len(), proxied.volumes().len()), (0, 1));
}
