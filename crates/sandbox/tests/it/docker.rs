//! Faults of an engine: missing images, dead workers, broken connections.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use language::Language;
use sandbox::{DockerConfig, DockerLauncher, Job, LaunchError, Launcher, Outcome, Owner, Shape};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::inventory::Inventory;
use crate::support::{
    Backend, MACHINE, RecordingSink, docker_config, job, owner, run_in, shape, test_engine,
};

/// Set for a copy of this test program that launches guests and waits until it is killed.
const PARKED_WORKER_ENV: &str = "SKILLBOX_TEST_PARK";

#[tokio::test]
async fn disallowed_and_missing_images_are_rejected_by_name() {
    if !Backend::Runc.is_available("images") {
        return;
    }
    let _machine = MACHINE.read().await;
    let mut config = docker_config(None);
    config.allowlist.push("skillbox/none:such".to_owned());
    let launcher = DockerLauncher::start(config).await.unwrap();
    let with = |image: &str| Shape { image: Some(image.to_owned()), ..shape(Language::Bash) };
    let error = launcher.launch(&with("skillbox/other:test")).await.err().unwrap();
    assert!(
        matches!(&error, LaunchError::ImageNotAllowed(name) if name == "skillbox/other:test"),
        "{error}"
    );
    let error = launcher.launch(&with("skillbox/none:such")).await.err().unwrap();
    assert!(error.to_string().contains("docker pull skillbox/none:such"), "{error}");
    // A skill's own image, when it is allowed.
    let python = with("skillbox/python:test");
    let (ran, kept) = run_in(&launcher, &python, &job(Language::Bash, "command -v python3")).await;
    assert_eq!(ran.exit_code, Some(0), "{}", kept.text());
}

#[tokio::test]
async fn an_unreachable_engine_is_named_in_the_error() {
    let config = |host: &str| DockerConfig {
        owner: owner(),
        host: host.to_owned(),
        runtime: None,
        lifetime: Duration::from_secs(600),
        images: sandbox::Images::new(|language| format!("{language}:none")),
        allowlist: vec![],
        require: vec![],
    };
    for host in ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1", "ssh://somewhere", "nonsense"]
    {
        let error = DockerLauncher::start(config(host)).await.err().unwrap();
        assert!(error.to_string().contains(host), "{error}");
    }
}

#[tokio::test]
async fn a_dropped_guest_leaves_nothing() {
    if !Backend::Runc.is_available("a guest that is let go") {
        return;
    }
    let _machine = MACHINE.write().await;
    let launcher = Backend::Runc.launcher().await;
    launcher.probe().await.unwrap();
    let before = Inventory::take().await;
    drop(launcher.launch(&shape(Language::Bash)).await.unwrap());
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let (job, mut kept) = (job(Language::Bash, "sleep 1000"), RecordingSink::default());
    let run = guest.run(&job, CancellationToken::new(), &mut kept);
    assert!(tokio::time::timeout(Duration::from_millis(500), run).await.is_err());
    launcher.launch(&shape(Language::Bash)).await.unwrap().discard().await;
    for _ in 0..200 {
        if Inventory::take().await == before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(Inventory::take().await, before);
}

/// Not a test itself: the worker that the next test kills.
#[tokio::test]
async fn parked_worker() {
    #[expect(clippy::disallowed_methods, reason = "said by the test below to its copy")]
    let Ok(name) = std::env::var(PARKED_WORKER_ENV) else { return };
    let launcher =
        DockerLauncher::start(DockerConfig { owner: Owner(name), ..docker_config(None) })
            .await
            .unwrap();
    let parked = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let running = launcher.launch(&shape(Language::Bash)).await.unwrap();
    println!("\nPARKED");
    let (job, mut kept) = (job(Language::Bash, "sleep 1000"), RecordingSink::default());
    let _ = running.run(&job, CancellationToken::new(), &mut kept).await;
    drop(parked);
}

#[tokio::test]
async fn containers_of_a_killed_worker_are_removed_within_15_seconds() {
    if !Backend::Runc.is_available("a killed worker") {
        return;
    }
    let _machine = MACHINE.read().await;
    let config = docker_config(None);
    let me = config.owner.clone();
    let survivor = DockerLauncher::start(config).await.unwrap();
    let alive = survivor.launch(&shape(Language::Bash)).await.unwrap();
    // Another living worker, whose containers are not ours to remove.
    let neighbour = Backend::Runc.launcher().await;
    let other = neighbour.launch(&shape(Language::Bash)).await.unwrap();

    let victim = owner();
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "docker::parked_worker", "--nocapture"])
        .env(PARKED_WORKER_ENV, &victim.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let parked = BufReader::new(worker.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .any(|line| line == "PARKED");
    let left_before = Inventory::containers_of(&victim).await;
    worker.kill().unwrap();
    worker.wait().unwrap();
    let killed = Instant::now();
    assert!(parked, "the worker did not start");
    assert_eq!(left_before, 2);
    let mut swept = 0;
    while Inventory::containers_of(&victim).await > 0 {
        assert!(killed.elapsed() < Duration::from_secs(15), "swept {swept} of 2");
        swept += survivor.sweep(&me).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for guest in [alive, other] {
        let ran = guest
            .run(
                &job(Language::Bash, "exit 0"),
                CancellationToken::new(),
                &mut RecordingSink::default(),
            )
            .await;
        assert_eq!(ran.unwrap().exit_code, Some(0));
    }
}

#[tokio::test]
async fn a_run_with_a_broken_connection_is_lost() {
    if !Backend::Runc.is_available("a broken connection") {
        return;
    }
    let _machine = MACHINE.read().await;
    let relay = Relay::start().await;
    let config = DockerConfig { host: format!("tcp://{}", relay.address), ..docker_config(None) };
    let mine = config.owner.clone();
    let launcher = DockerLauncher::start(config).await.unwrap();
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let cut = CancellationToken::new();
    let mut kept = RecordingSink::default();
    kept.stop_on_log = Some(cut.clone());
    let job_that_waits = job(Language::Bash, "echo on; sleep 1000");
    let run = guest.run(&job_that_waits, CancellationToken::new(), &mut kept);
    let (ran, ()) = tokio::join!(run, async {
        cut.cancelled().await;
        relay.cut.notify_waiters();
    });
    assert_eq!(ran.unwrap().outcome, Outcome::Lost);
    let (ran, _) = run_in(&launcher, &shape(Language::Bash), &job(Language::Bash, "exit 0")).await;
    assert_eq!(ran.exit_code, Some(0));
    assert_eq!(Inventory::containers_of(&mine).await, 0);
}

/// Other tests at the same time would not survive the restart of the engine, so it waits until it
/// is alone.
#[tokio::test]
async fn an_engine_restart_loses_only_active_runs() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the command that restarts the engine of the tests"
    )]
    let Ok(restart) = std::env::var("SKILLBOX_TEST_ENGINE_RESTART") else {
        println!(
            "NEEDS ENGINE: the restart of an engine: SKILLBOX_TEST_ENGINE_RESTART names no command"
        );
        return;
    };
    let _machine = MACHINE.write().await;
    let config = docker_config(None);
    let mine = config.owner.clone();
    let launcher = DockerLauncher::start(config).await.unwrap();
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let parked = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let started = CancellationToken::new();
    let mut kept = RecordingSink::default();
    kept.stop_on_log = Some(started.clone());
    let job_that_waits =
        Job { timeout: Duration::from_secs(600), ..job(Language::Bash, "echo on; sleep 1000") };
    let run = guest.run(&job_that_waits, CancellationToken::new(), &mut kept);
    let restarting = async {
        started.cancelled().await;
        let done =
            tokio::process::Command::new("sh").args(["-c", &restart]).status().await.unwrap();
        assert!(done.success());
    };
    let (ran, ()) = tokio::join!(run, restarting);
    assert_eq!(ran.unwrap().outcome, Outcome::Lost);
    // One that waited for its job is lost as well, and says so rather than hang.
    let ran = parked
        .run(
            &job(Language::Bash, "exit 0"),
            CancellationToken::new(),
            &mut RecordingSink::default(),
        )
        .await;
    assert!(ran.map_or(true, |ran| ran.outcome == Outcome::Lost));
    let (ran, _) = run_in(&launcher, &shape(Language::Bash), &job(Language::Bash, "exit 0")).await;
    assert_eq!(ran.exit_code, Some(0));
    let asked = Instant::now();
    while Inventory::containers_of(&mine).await > 0 {
        assert!(asked.elapsed() < Duration::from_secs(60), "something is left");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A TCP address in front of the engine, whose connections can be broken all at once.
struct Relay {
    address: std::net::SocketAddr,
    cut: std::sync::Arc<tokio::sync::Notify>,
}

impl Relay {
    async fn start() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay { address: listener.local_addr().unwrap(), cut: Default::default() };
        let cut = relay.cut.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let cut = cut.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = copy_to_engine(client) => {}
                        () = cut.notified() => {}
                    }
                });
            }
        });
        relay
    }
}

async fn copy_to_engine(mut client: TcpStream) {
    let host = test_engine().unwrap();
    let _ = match host.strip_prefix("unix://") {
        Some(path) => {
            let mut engine = UnixStream::connect(path).await.unwrap();
            tokio::io::copy_bidirectional(&mut client, &mut engine).await
        }
        None => {
            let mut engine = TcpStream::connect(host.trim_start_matches("tcp://")).await.unwrap();
            tokio::io::copy_bidirectional(&mut client, &mut engine).await
        }
    };
}
