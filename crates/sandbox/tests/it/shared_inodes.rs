//! Two concurrent runs cannot communicate through locks on inodes that both can open.

use std::collections::BTreeMap;

use language::Language;
use sandbox::{Control, Defence, DockerLauncher, Job, Launcher, NativeLauncher, Outcome};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Backend, MACHINE, RecordingSink, docker_config, job, native_config, on_every_backend, run_in,
    shape,
};

/// By the name of what was opened: the answers to everything that can be asked about its locks.
type Seen = BTreeMap<String, Value>;

on_every_backend! {
    one_run_cannot_detect_the_locks_of_another,
}

async fn one_run_cannot_detect_the_locks_of_another(on: Backend) {
    let _machine = MACHINE.read().await;
    let launcher = on.launcher().await;
    let isolation = launcher.probe().await.unwrap();
    let private = isolation.controls.contains_key(&Control::PrivateInodes);
    // A pod's files are whatever its node makes of an image; our stand-in of a node shares the
    // machine's `/usr`, and says so.
    assert!(private || on == Backend::Pod, "{isolation:?}");
    let seen = differences(&*launcher).await;
    assert_eq!(seen.is_empty(), private, "{seen:?}");
}

#[tokio::test]
async fn without_private_inodes_a_native_run_detects_them() {
    // Guests of other tests would hold locks on some of these inodes.
    let _machine = MACHINE.write().await;
    let launcher = NativeLauncher::start_without(native_config(), Defence::OwnInodes).unwrap();
    assert!(launcher.probe().await.unwrap().missing().contains(&Control::PrivateInodes));
    let seen = differences(&launcher).await;
    // Files of the host, its devices, and what has no file.
    for shared in ["/usr/bin", "/dev/null", "epoll", "/proc/self/ns/time"] {
        assert!(seen.iter().any(|name| name == shared), "{shared} is not among {seen:?}");
    }
}

#[tokio::test]
async fn without_private_inodes_a_container_detects_them() {
    if !Backend::Runc.is_available("without_private_inodes_a_container_detects_them") {
        return;
    }
    let _machine = MACHINE.write().await;
    let launcher =
        DockerLauncher::start_without(docker_config(None), Defence::OwnInodes).await.unwrap();
    assert!(launcher.probe().await.unwrap().missing().contains(&Control::PrivateInodes));
    let seen = differences(&launcher).await;
    for shared in ["/skillbox", "/skillbox/skillbox-guest", "epoll"] {
        assert!(seen.iter().any(|name| name == shared), "{shared} is not among {seen:?}");
    }
}

/// The differences that a receiver observes between a sender that holds locks and one that does
/// not.
async fn differences(launcher: &dyn Launcher) -> Vec<String> {
    let idle = observe_beside(launcher, "idle").await;
    assert!(idle.len() > 50, "the attack opens too few files: {idle:?}");
    let mut differences = Vec::new();
    for sender in ["exclusive", "shared"] {
        let beside = observe_beside(launcher, sender).await;
        assert_eq!(idle.keys().collect::<Vec<_>>(), beside.keys().collect::<Vec<_>>());
        differences.extend(beside.into_iter().filter(|(name, seen)| idle[name] != *seen).map(
            |(name, seen)| {
                println!("beside {sender}: {name} {seen}, otherwise {}", idle[&name]);
                name
            },
        ));
    }
    differences
}

/// The observations of a receiver while a sender with this role runs.
async fn observe_beside(launcher: &dyn Launcher, sender: &str) -> Seen {
    let (sending, stop) = (CancellationToken::new(), CancellationToken::new());
    let mut kept = RecordingSink::cancel_on_log(sending.clone());
    let guest = launcher.launch(&shape(Language::Python)).await.unwrap();
    let (sender, receiver) = (with_role(sender), with_role("receive"));
    let receive = async {
        sending.cancelled().await;
        let received = run_in(launcher, &shape(Language::Python), &receiver).await;
        stop.cancel();
        received
    };
    let (sent, (received, log)) =
        tokio::join!(guest.run(&sender, stop.clone(), &mut kept), receive);
    assert_eq!(sent.unwrap().outcome, Outcome::Cancelled, "{}", kept.text());
    let output = received.output.unwrap_or_else(|| panic!("{}", log.text()));
    serde_json::from_slice(&output).unwrap()
}

fn with_role(role: &str) -> Job {
    let mut job = job(Language::Python, include_str!("../fixtures/shared-inodes.py"));
    job.env.push(("ROLE".into(), role.into()));
    job
}
