//! Launcher processes that are killed under a server which lives on.

use rustix::process::{Pid, Signal, kill_process};

use crate::api::{Api, until};
use crate::load::End;
use crate::support::Server;
use crate::traces::{cgroups, descendants, launchers};

const SETTINGS: &[(&str, &str)] = &[("SKILLBOX_LAUNCHERS", "2")];

#[tokio::test(flavor = "multi_thread")]
async fn a_launcher_that_is_killed_takes_its_own_runs_and_no_others() {
    let server = Server::with(SETTINGS);
    server.push("nap", "main.sh", "sleep 10\n");
    server.push("quick", "main.sh", "true\n");
    let api = Api::of(&server);
    let runs = [(); 2].map(|()| api.begin("nap"));
    let asleep =
        |root: u32| descendants(root).iter().filter(|process| process.name == "sleep").count();
    until("both sleep", async || (asleep(server.pid()) == 2).then_some(())).await;
    let launchers = launchers(server.pid());
    let victim = launchers
        .iter()
        .find(|launcher| asleep(launcher.pid) == 1)
        .expect("each has one of them")
        .pid;
    kill(victim);
    let mut outcomes = Vec::new();
    for run in runs {
        outcomes.push(End::of(&run.await.expect("an answer")));
    }
    outcomes.sort_by(|one, other| one.status.cmp(&other.status));
    assert_eq!(outcomes, [End::new("failed", "lost"), End::new("success", "exited")]);

    // As many as there are launchers, so that each is asked.
    for _ in 0..launchers.len() {
        assert_eq!(End::of(&api.result("quick").await), End::new("success", "exited"));
    }
    until("its cgroups go", async || cgroups(&format!("{victim}-")).is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_launchers_are_killed_the_next_runs_succeed() {
    let server = Server::with(SETTINGS);
    server.push("quick", "main.sh", "true\n");
    let api = Api::of(&server);
    for _ in 0..5 {
        launchers(server.pid()).iter().for_each(|launcher| kill(launcher.pid));
        let runs = [(); 4].map(|()| api.begin("quick"));
        for run in runs {
            assert_eq!(
                End::of(&run.await.expect("an answer")),
                End::new("success", "exited"),
                "{}",
                server.log()
            );
        }
    }
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process id");
    kill_process(pid, Signal::KILL).expect("it is ours to kill");
}
