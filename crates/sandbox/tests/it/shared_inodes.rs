//! Two runs at the same time learn nothing of each other through locks on inodes that both can
//! open.

use std::collections::BTreeMap;

use language::Language;
use sandbox::{Control, Defence, DockerLauncher, Job, Launcher, NativeLauncher, Outcome};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Backend, Kept, MACHINE, docker_config, job, native_config, on_every_backend, run_in, shape,
};

/// By the name of what was opened: the answers to everything that can be asked about its locks.
type Seen = BTreeMap<String, Value>;

on_every_backend! {
    one_run_does_not_see_the_locks_of_another,
}

async fn one_run_does_not_see_the_locks_of_another(on: Backend) {
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
async fn without_inodes_of_its_own_a_native_run_sees_them() {
    // Guests of other tests would hold locks on some of them.
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
async fn without_inodes_of_its_own_a_container_sees_them() {
    if !Backend::Runc.is_here("without_inodes_of_its_own_a_container_sees_them") {
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

/// What a receiver sees otherwise when another run holds locks than when that run holds none.
async fn differences(launcher: &dyn Launcher) -> Vec<String> {
    let idle = seen_beside(launcher, "idle").await;
    assert!(idle.len() > 50, "the attack opens next to nothing: {idle:?}");
    let mut differences = Vec::new();
    for sender in ["exclusive", "shared"] {
        let beside = seen_beside(launcher, sender).await;
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

/// What a receiver sees while a sender of this kind has its locks.
async fn seen_beside(launcher: &dyn Launcher, sender: &str) -> Seen {
    let (sending, stop) = (CancellationToken::new(), CancellationToken::new());
    let mut kept = Kept::until_log(sending.clone());
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
