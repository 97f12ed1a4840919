//! One tenant makes a server with half a gigabyte of memory buffer as much as possible. The requests of
//! another tenant must still succeed.

mod attacks;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::api::{Api, text};
use crate::memory::peak_memory;
use crate::memory_cgroup::MemoryCgroup;
use crate::support::Server;
use attacks::{ATTACKS, Attacker, UPLOADS};

/// Memory limit of the server and all of its child processes.
const MEMORY_LIMIT: u64 = 512 << 20;
/// The default buffer budget with that limit.
const BUDGET: &str = "214748364";
const NO_BUDGET: &str = "1099511627776";
/// Measured requests of the other tenant, whose median is reported.
const MEASURED_RUNS: usize = 9;

#[tokio::test(flavor = "multi_thread")]
async fn memory_exhaustion_by_one_tenant_does_not_affect_another() {
    let group = MemoryCgroup::new(MEMORY_LIMIT);
    // In its own control group the server derives the budget from the limit.
    let budget = group.directory().is_none().then_some(BUDGET);
    let mut server = start_server(&group, budget);
    let (attacker, victim) = (Attacker::new(&server).await, victim(&server));
    let idle = latencies(&victim).await;
    for attack in &ATTACKS {
        let attacking = attacker.start(attack);
        let busy = latencies(&victim).await;
        let answers = attacking.await.expect("no panic");
        println!("{}: {answers:?}; the other tenant: {}", attack.name, compare(idle, busy));
        assert!(!server.has_ended(), "{} ended the server", attack.name);
        for answer in answers.keys() {
            assert!(attack.answers.contains(answer), "{}: {answers:?}", attack.name);
        }
    }
    let peak = peak_memory(server.pid());
    println!("the server's peak was {} MiB", peak >> 20);
    assert!(peak < MEMORY_LIMIT, "{} MiB", peak >> 20);
}

/// Control: without the budget, the same uploads exceed the memory of the server.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_budget_uploads_exhaust_memory() {
    let group = MemoryCgroup::new(MEMORY_LIMIT);
    let mut server = start_server(&group, Some(NO_BUDGET));
    let attacker = Attacker::new(&server).await;
    let answers = attacker.start(&UPLOADS).await.expect("no panic");
    assert!(
        server.has_ended() || peak_memory(server.pid()) > MEMORY_LIMIT,
        "the attack has no effect: {answers:?}"
    );
}

fn start_server(group: &MemoryCgroup, budget: Option<&str>) -> Server {
    let mut settings = vec![("SKILLBOX_MAX_CONCURRENT_EXECS", "4"), ("SKILLBOX_LAUNCHERS", "1")];
    settings.extend(budget.map(|bytes| ("SKILLBOX_MAX_BUFFER_SIZE", bytes)));
    Server::start_in_cgroup(group.directory(), &settings)
}

fn victim(server: &Server) -> Api {
    server.run(&["tenant", "create", "victim"]).ok();
    server.push("hello", "main.sh", "echo hello\n");
    let directory = server.home().join("hello").display().to_string();
    server.run(&["skill", "push", &directory, "-t", "victim"]).ok();
    Api::for_server(server).with_key(&text(&server.json(&["key", "create", "-t", "victim"])["key"]))
}

/// The median latencies of `/health` and of a small run, both of which must succeed.
async fn latencies(victim: &Api) -> [Duration; 2] {
    let (mut checks, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..MEASURED_RUNS {
        let began = Instant::now();
        assert_eq!(victim.get("/health").await.status(), 200);
        checks.push(began.elapsed());
        let began = Instant::now();
        let answer = victim.run(&json!({ "skill": "hello" }), None).await.expect("an answer");
        assert_eq!(
            (answer.status, answer.body["status"].as_str()),
            (200, Some("success")),
            "{}",
            answer.body
        );
        runs.push(began.elapsed());
    }
    [checks, runs].map(|mut times| {
        times.sort();
        times[MEASURED_RUNS / 2]
    })
}

fn compare(idle: [Duration; 2], busy: [Duration; 2]) -> String {
    let times = |n: usize| busy[n].as_secs_f64() / idle[n].as_secs_f64();
    format!(
        "health {:?} ({:.1} times idle), run {:?} ({:.1} times idle)",
        busy[0],
        times(0),
        busy[1],
        times(1)
    )
}
