//! `skillbox migrate`, and servers that do not migrate themselves.

use serde_json::{Value, json};

use crate::api::{Api, wait_until};
use crate::postgres::cluster;
use crate::support::{CommandResult, Server, run_command, skillbox};

fn migrate(dsn: &str) -> CommandResult {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = skillbox(home.path());
    command.args(["-o", "json", "migrate"]).env("SKILLBOX_DB_DSN", dsn);
    run_command(command)
}

#[test]
fn migrate_prints_migrations_and_concurrent_calls_apply_them_once() {
    let dsn = cluster::database();
    let jobs: Vec<_> = (0..4)
        .map(|_| {
            let dsn = dsn.clone();
            std::thread::spawn(move || migrate(&dsn).ok().json())
        })
        .collect();
    let said: Vec<Value> = jobs.into_iter().map(|job| job.join().expect("it ends")).collect();
    let taken: Vec<&Value> =
        said.iter().flat_map(|said| said["taken"].as_array().expect("a list")).collect();
    let last = said[0]["to"].as_u64().expect("a number");
    assert!(
        taken.iter().map(|step| step["step"].as_u64().expect("a number")).eq(1..=last),
        "{said:?}"
    );
    assert_eq!(migrate(&dsn).ok().json(), json!({ "from": last, "taken": [], "to": last }));
}

#[test]
fn errors_name_the_problem() {
    let refused = migrate("postgres://nobody:hush@127.0.0.1:1/none").failed(2);
    assert!(
        refused.stderr.contains("SKILLBOX_DB_DSN") && !refused.stderr.contains("hush"),
        "{}",
        refused.stderr
    );
    let server = Server::start();
    let refused = server.run(&["migrate"]).failed(2);
    assert!(refused.stderr.contains("another server uses"), "{}", refused.stderr);
}

/// A cluster may start pods before the migration job.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_automatic_migration_waits_for_the_schema() {
    let dsn = cluster::database();
    let mut server =
        Server::stopped(&[("SKILLBOX_DB_DSN", &dsn), ("SKILLBOX_MIGRATE_ON_START", "false")]);
    server.spawn_process();
    let addr = wait_until("it says that it waits", async || {
        let log = server.log();
        let line = log.lines().find(|line| line.contains("waiting: "))?;
        let addr = line.split_whitespace().find_map(|word| word.strip_prefix("addr="))?;
        Some(addr.to_owned())
    })
    .await;
    let waiting = Api::new(&format!("http://{addr}"), "sk-none");
    assert_eq!(waiting.try_get("/health").await.expect("an answer").status, 200);
    let ready = waiting.try_get("/ready").await.expect("an answer");
    assert_eq!((ready.status, &ready.body["status"]), (503, &json!("not_ready")));
    let why = ready.body["checks"]["postgres"].as_str().expect("a reason");
    assert!(why.contains("skillbox migrate"), "{why}");
    for path in ["/", "/v1/skills", "/metrics"] {
        let refused = waiting.try_get(path).await.expect("an answer");
        assert_eq!((refused.status, &refused.body["error"]), (503, &json!("not_ready")), "{path}");
    }

    migrate(&dsn).ok();
    server.key = server.wait_until_ready().expect("a first key");
    assert_eq!(server.url, format!("http://{addr}"), "it goes on where it waited");
    server.push("echo", "main.sh", "echo '{}' > \"$SANDBOX_OUTPUT\"\n");
    assert_eq!(Api::for_server(&server).result("echo").await["status"], "success");
}

#[test]
fn a_server_waiting_for_the_schema_can_be_stopped() {
    let dsn = cluster::database();
    let mut server =
        Server::stopped(&[("SKILLBOX_DB_DSN", &dsn), ("SKILLBOX_MIGRATE_ON_START", "false")]);
    server.spawn_process();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(90);
    while !server.log().contains("waiting: ") {
        assert!(
            std::time::Instant::now() < deadline,
            "it does not say that it waits: {}",
            server.log()
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}
