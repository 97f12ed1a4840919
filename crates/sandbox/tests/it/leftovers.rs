//! Nothing outlives a run, and nothing outlives a launcher.

use std::time::Duration;

use sandbox::{Control, Launcher, Runtime};
use tokio_util::sync::CancellationToken;

use crate::inventory::Inventory;
use crate::support::{Kept, MACHINE, job, launcher, run_in, shape};

/// A launcher process and the children it keeps ready.
const AT_REST: usize = 1 + 2;

#[tokio::test]
async fn the_inventory_sees_what_is_there_while_it_is_there() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take();
    let launcher = launcher();
    let parked = launcher.launch(&shape(Runtime::Bash)).await.unwrap();
    let during = Inventory::take();
    // The launcher, and the guest it made.
    assert!(during.processes.len() >= before.processes.len() + 2, "{during:?}");
    let by_cgroup = parked.isolation().controls.contains_key(&Control::MemoryLimit);
    assert_eq!(during.cgroups.len() > before.cgroups.len(), by_cgroup, "{during:?}");
    parked.discard().await;
}

#[tokio::test]
async fn a_launcher_holds_no_more_after_many_runs_than_before() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take();
    let launcher = launcher();
    let script = "(setsid sleep 1000 &) ; sleep 1000 & exit 0";
    for _ in 0..10 {
        run_in(&launcher, &shape(Runtime::Bash), &job(Runtime::Bash, script)).await;
        let now = Inventory::take();
        assert!(now.processes.len() <= AT_REST, "{:?}", now.processes);
        assert_eq!(now.mounts, before.mounts);
    }
    drop(launcher);
    assert_eq!(Inventory::take(), before);
}

#[tokio::test]
async fn a_guest_that_is_dropped_or_discarded_leaves_nothing() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take();
    let launcher = launcher();
    drop(launcher.launch(&shape(Runtime::Bash)).await.unwrap());
    launcher.launch(&shape(Runtime::Bash)).await.unwrap().discard().await;
    drop(launcher);
    assert_eq!(Inventory::take(), before);
}

#[tokio::test]
async fn a_run_whose_caller_goes_away_is_killed() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take();
    let launcher = launcher();
    let guest = launcher.launch(&shape(Runtime::Bash)).await.unwrap();
    let job = job(Runtime::Bash, "sleep 1000");
    let mut kept = Kept::default();
    let run = guest.run(&job, CancellationToken::new(), &mut kept);
    assert!(tokio::time::timeout(Duration::from_millis(300), run).await.is_err());
    drop(launcher);
    assert_eq!(Inventory::take(), before);
}

#[tokio::test]
async fn a_launcher_that_goes_away_takes_its_running_sandboxes_with_it() {
    let _machine = MACHINE.write().await;
    let before = Inventory::take();
    let launcher = launcher();
    let guest = launcher.launch(&shape(Runtime::Bash)).await.unwrap();
    let parked = launcher.launch(&shape(Runtime::Bash)).await.unwrap();
    let job = job(Runtime::Bash, "sleep 1000");
    let mut kept = Kept::default();
    let run = guest.run(&job, CancellationToken::new(), &mut kept);
    let (ran, ()) = tokio::join!(run, async { drop(launcher) });
    // Whether the script had started is luck; that it did not go on is not.
    assert!(ran.map_or(true, |ran| ran.exit_code.is_none()));
    assert_eq!(Inventory::take(), before);
    drop(parked);
}
