//! One tenant that makes the server buffer as much as it can, a server with half a gigabyte of
//! memory, and another tenant whose requests must go on.

mod attacks;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::api::{Api, text};
use crate::memory::peak_memory;
use crate::memory_group::MemoryGroup;
use crate::support::Server;
use attacks::{ATTACKS, Hog, UPLOADS};

/// Of the server, and of everything that it starts.
const LIMIT: u64 = 512 << 20;
/// What the budget is by default with that limit.
const BUDGET: &str = "214748364";
const NO_BUDGET: &str = "1099511627776";
/// Requests of the other tenant whose middle is looked at.
const WATCHED: usize = 9;

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_hoards_memory_takes_nothing_from_another() {
    let group = MemoryGroup::new(LIMIT);
    // In a group of its own the server finds out by itself what fits.
    let budget = group.directory().is_none().then_some(BUDGET);
    let mut server = started(&group, budget);
    let (hog, victim) = (Hog::new(&server).await, victim(&server));
    let idle = latencies(&victim).await;
    for attack in &ATTACKS {
        let attacking = hog.begin(attack);
        let busy = latencies(&victim).await;
        let answers = attacking.await.expect("no panic");
        println!("{}: {answers:?}; the other tenant: {}", attack.name, compared(idle, busy));
        assert!(!server.has_ended(), "{} ended the server", attack.name);
        for answer in answers.keys() {
            assert!(attack.answers.contains(answer), "{}: {answers:?}", attack.name);
        }
    }
    let peak = peak_memory(server.pid());
    println!("the server's peak was {} MiB", peak >> 20);
    assert!(peak < LIMIT, "{} MiB", peak >> 20);
}

/// The control: without the budget the same uploads are more than the server has.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_budget_uploads_take_all_memory() {
    let group = MemoryGroup::new(LIMIT);
    let mut server = started(&group, Some(NO_BUDGET));
    let hog = Hog::new(&server).await;
    let answers = hog.begin(&UPLOADS).await.expect("no panic");
    assert!(
        server.has_ended() || peak_memory(server.pid()) > LIMIT,
        "the attack is none: {answers:?}"
    );
}

fn started(group: &MemoryGroup, budget: Option<&str>) -> Server {
    let mut settings = vec![("SKILLBOX_MAX_CONCURRENT_EXECS", "4"), ("SKILLBOX_LAUNCHERS", "1")];
    settings.extend(budget.map(|bytes| ("SKILLBOX_MAX_BUFFER_SIZE", bytes)));
    Server::within(group.directory(), &settings)
}

fn victim(server: &Server) -> Api {
    server.run(&["tenant", "create", "victim"]).ok();
    server.push("hello", "main.sh", "echo hello\n");
    let directory = server.home().join("hello").display().to_string();
    server.run(&["skill", "push", &directory, "-t", "victim"]).ok();
    Api::of(server).with_key(&text(&server.json(&["key", "create", "-t", "victim"])["key"]))
}

/// The middle of how long a look at `/health` takes, and of a small run, which must succeed.
async fn latencies(victim: &Api) -> [Duration; 2] {
    let (mut looks, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..WATCHED {
        let began = Instant::now();
        assert_eq!(victim.get("/health").await.status(), 200);
        looks.push(began.elapsed());
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
    [looks, runs].map(|mut times| {
        times.sort();
        times[WATCHED / 2]
    })
}

fn compared(idle: [Duration; 2], busy: [Duration; 2]) -> String {
    let times = |n: usize| busy[n].as_secs_f64() / idle[n].as_secs_f64();
    format!(
        "health {:?} ({:.1} times idle), run {:?} ({:.1} times idle)",
        busy[0],
        times(0),
        busy[1],
        times(1)
    )
}
