//! Launcher processes are killed while their server continues.

use rustix::process::{Pid, Signal, kill_process};

use crate::api::{Api, wait_until};
use crate::leftovers::{cgroups, descendants, launchers};
use crate::load::ExecutionEnd;
use crate::support::Server;

const SETTINGS: &[(&str, &str)] = &[("SKILLBOX_LAUNCHERS", "2")];

#[tokio::test(flavor = "multi_thread")]
async fn killing_a_launcher_loses_only_its_own_runs() {
    let server = Server::start_with(SETTINGS);
    server.push("nap", "main.sh", "sleep 10\n");
    server.push("quick", "main.sh", "true\n");
    let api = Api::for_server(&server);
    let runs = [(); 2].map(|()| api.begin("nap"));
    let asleep =
        |root: u32| descendants(root).iter().filter(|process| process.name == "sleep").count();
    wait_until("both sleep", async || (asleep(server.pid()) == 2).then_some(())).await;
    let launchers = launchers(server.pid());
    let victim = launchers
        .iter()
        .find(|launcher| asleep(launcher.pid) == 1)
        .expect("each launcher has one run")
        .pid;
    kill(victim);
    let mut outcomes = Vec::new();
    for run in runs {
        outcomes.push(ExecutionEnd::from_json(&run.await.expect("an answer")));
    }
    outcomes.sort_by(|one, other| one.status.cmp(&other.status));
    assert_eq!(
        outcomes,
        [ExecutionEnd::new("failed", "lost"), ExecutionEnd::new("success", "exited")]
    );

    // One run per launcher, so that each of them is used.
    for _ in 0..launchers.len() {
        assert_eq!(
            ExecutionEnd::from_json(&api.result("quick").await),
            ExecutionEnd::new("success", "exited")
        );
    }
    wait_until("the cgroups of the launcher are removed", async || {
        cgroups(&format!("{victim}-")).is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_succeed_after_all_launchers_were_killed() {
    let server = Server::start_with(SETTINGS);
    server.push("quick", "main.sh", "true\n");
    let api = Api::for_server(&server);
    for _ in 0..5 {
        launchers(server.pid()).iter().for_each(|launcher| kill(launcher.pid));
        let runs = [(); 4].map(|()| api.begin("quick"));
        for run in runs {
            assert_eq!(
                ExecutionEnd::from_json(&run.await.expect("an answer")),
                ExecutionEnd::new("success", "exited"),
                "{}",
                server.log()
            );
        }
    }
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process id");
    kill_process(pid, Signal::KILL).expect("a process of this test");
}
