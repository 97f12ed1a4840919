//! Runs and launchers leave nothing behind.

use std::path::PathBuf;
use std::time::Duration;

use language::Language;
use sandbox::{Control, Launcher};
use tokio_util::sync::CancellationToken;

use crate::inventory::{Inventory, cgroups};
use crate::support::{MACHINE, RecordingSink, job, native_launcher, run_in, shape};

/// A launcher process and its spare children.
const AT_REST: usize = 1 + 2;

#[tokio::test]
async fn inventory_detects_a_running_sandbox() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take().await;
    let launcher = native_launcher();
    let parked = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let during = Inventory::take().await;
    // The launcher, and the guest it made.
    assert!(during.processes.len() >= before.processes.len() + 2, "{during:?}");
    let by_cgroup = parked.isolation().controls.contains_key(&Control::MemoryLimit);
    assert_eq!(during.cgroups.len() > before.cgroups.len(), by_cgroup, "{during:?}");
    parked.discard().await;
}

#[tokio::test]
async fn launcher_leaks_nothing_over_many_runs() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take().await;
    let launcher = native_launcher();
    let script = "(setsid sleep 1000 &) ; sleep 1000 & exit 0";
    for _ in 0..10 {
        run_in(&launcher, &shape(Language::Bash), &job(Language::Bash, script)).await;
        let now = Inventory::take().await;
        assert!(now.processes.len() <= AT_REST, "{:?}", now.processes);
        assert_eq!(now.mounts, before.mounts);
    }
    drop(launcher);
    assert_eq!(Inventory::take().await, before);
}

#[tokio::test]
async fn dropped_or_discarded_guest_leaves_nothing() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take().await;
    let launcher = native_launcher();
    drop(launcher.launch(&shape(Language::Bash)).await.unwrap());
    launcher.launch(&shape(Language::Bash)).await.unwrap().discard().await;
    drop(launcher);
    assert_eq!(Inventory::take().await, before);
}

#[tokio::test]
async fn run_is_killed_when_its_future_is_dropped() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take().await;
    let launcher = native_launcher();
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let job = job(Language::Bash, "sleep 1000");
    let mut kept = RecordingSink::default();
    let run = guest.run(&job, CancellationToken::new(), &mut kept);
    assert!(tokio::time::timeout(Duration::from_millis(300), run).await.is_err());
    drop(launcher);
    assert_eq!(Inventory::take().await, before);
}

#[tokio::test]
async fn dropping_a_launcher_kills_its_running_sandboxes() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take().await;
    let launcher = native_launcher();
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let parked = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let job = job(Language::Bash, "sleep 1000");
    let mut kept = RecordingSink::default();
    let run = guest.run(&job, CancellationToken::new(), &mut kept);
    let (ran, ()) = tokio::join!(run, async { drop(launcher) });
    // The script may or may not have started; it must not continue.
    assert!(ran.map_or(true, |ran| ran.exit_code.is_none()));
    assert_eq!(Inventory::take().await, before);
    drop(parked);
}

#[tokio::test]
async fn killed_launcher_is_replaced_and_its_cgroups_removed() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take().await;
    let launcher = native_launcher();
    let parked = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let victim =
        children().into_iter().find(|child| !before.processes.contains_key(child)).unwrap();
    let its_cgroups = || {
        let name = format!("{victim}-");
        let ours = |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&name);
        cgroups().iter().filter(ours).count()
    };
    let by_cgroup = parked.isolation().controls.contains_key(&Control::MemoryLimit);
    assert_eq!(its_cgroups() > 0, by_cgroup);

    let pid = rustix::process::Pid::from_raw(victim.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // Immediately, while the client may not have noticed its end yet.
    let (ran, _) = run_in(&launcher, &shape(Language::Bash), &job(Language::Bash, "exit 0")).await;
    assert_eq!(ran.exit_code, Some(0));
    drop(parked);
    for _ in 0..500 {
        if its_cgroups() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(its_cgroups(), 0);
    drop(launcher);
    assert_eq!(Inventory::take().await, before);
}

/// The direct children of this process.
fn children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = tasks.flat_map(|task| std::fs::read_to_string(task.path().join("children")));
    children
        .flat_map(|pids| {
            pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect()
}
