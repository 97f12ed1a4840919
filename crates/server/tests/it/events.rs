//! Following an execution.

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{Server, launch, refused};

/// One event as it stands on the wire.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    kind: String,
    id: String,
    data: Value,
}

/// A stream being read.
struct Reader {
    answer: Response,
    held: String,
    comments: usize,
}

impl Reader {
    async fn open(server: &Server, id: &str, after: Option<&str>) -> Reader {
        let mut request = server.get(&format!("/v1/executions/{id}/events"));
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        Reader::of(request.send().await.unwrap())
    }

    fn of(answer: Response) -> Reader {
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Reader { answer, held: String::new(), comments: 0 }
    }

    /// The next event; `None` when the server ended the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.held.split_once("\n\n") {
                let block = block.to_owned();
                self.held = rest.to_owned();
                if let Some(event) = self.read(&block) {
                    return Some(event);
                }
            }
            let chunk = self.answer.chunk().await.unwrap()?;
            self.held.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    fn read(&mut self, block: &str) -> Option<Event> {
        let field = |name: &str| {
            block
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|value| value.trim_start().to_owned())
        };
        if block.starts_with(':') {
            self.comments += 1;
        }
        Some(Event {
            kind: field("event:")?,
            id: field("id:").expect("every event has an id"),
            data: serde_json::from_str(&field("data:").unwrap()).unwrap(),
        })
    }

    async fn rest(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

fn log(events: &[Event]) -> String {
    let lines = events.iter().filter(|event| event.kind == "log");
    lines.map(|event| event.data["text"].as_str().unwrap()).collect()
}

async fn submit(server: &Server, skill: &str) -> String {
    let answer = server
        .post("/v1/executions", &json!({ "skill": skill, "mode": "async" }))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 202);
    answer.json::<Value>().await.unwrap()["execution_id"].as_str().unwrap().to_owned()
}

const SLOW: &str = "for n in 1 2 3 4 5; do echo \"line $n\"; sleep 0.3; done; echo '{\"n\":5}' > \"$SANDBOX_OUTPUT\"\n";
const LINES: &str = "line 1\nline 2\nline 3\nline 4\nline 5\n";

#[tokio::test]
async fn a_run_is_followed_to_its_result() {
    let server = Server::start().await;
    server.publish_bash("slow", SLOW).await;
    let id = submit(&server, "slow").await;
    let events = Reader::open(&server, &id, None).await.rest().await;
    assert_eq!(log(&events), LINES);
    let states: Vec<&str> =
        events.iter().filter_map(|event| event.data["status"].as_str()).collect();
    assert!(states.contains(&"running"), "{states:?}");
    let (result, others) = events.split_last().unwrap();
    assert_eq!(result.kind, "result");
    assert!(others.iter().all(|event| event.kind != "result"));
    let read: Value =
        server.get(&format!("/v1/executions/{id}")).send().await.unwrap().json().await.unwrap();
    assert_eq!(result.data, read);
    assert_eq!(read["output"], json!({ "n": 5 }));
    // Afterwards the same is told again, from the record.
    let again = Reader::open(&server, &id, None).await.rest().await;
    assert_eq!((log(&again), again.last()), (LINES.to_owned(), events.last()));
}

#[tokio::test]
async fn a_line_comes_while_its_script_runs() {
    let server = Server::start().await;
    server.publish_bash("endless", "echo one; sleep 600\n").await;
    let id = submit(&server, "endless").await;
    let mut reader = Reader::open(&server, &id, None).await;
    let mut seen = Vec::new();
    while log(&seen) != "one\n" {
        seen.push(reader.next().await.expect("the script has not ended"));
    }
    let cancel =
        server.request(Method::POST, &format!("/v1/executions/{id}/cancel")).send().await.unwrap();
    assert!(cancel.status().is_success());
    assert_eq!(reader.rest().await.last().unwrap().data["status"], "cancelled");
}

#[tokio::test]
async fn a_reader_goes_on_where_it_was_cut_off() {
    let server = Server::start().await;
    server.publish_bash("slow", SLOW).await;
    let id = submit(&server, "slow").await;
    let mut seen: Vec<Event> = Vec::new();
    // Cut after every event, so that every id is gone on from.
    loop {
        let after = seen.last().map(|event| event.id.clone());
        let mut reader = Reader::open(&server, &id, after.as_deref()).await;
        match reader.next().await {
            Some(event) => seen.push(event),
            None => break,
        }
    }
    assert_eq!(log(&seen), LINES, "nothing twice, nothing lost");
    assert_eq!(seen.iter().filter(|event| event.kind == "result").count(), 1);
    let path = format!("/v1/executions/{id}/events?after={}", seen[seen.len() - 2].id);
    let last = Reader::of(server.get(&path).send().await.unwrap()).rest().await;
    assert_eq!(last, seen[seen.len() - 1..], "the query says the same as the header");
}

#[tokio::test]
async fn what_cannot_be_followed_is_refused() {
    let server = Server::start().await;
    server.publish_bash("quick", "true\n").await;
    let run = server.run(json!({ "skill": "quick" })).await;
    let path = format!("/v1/executions/{}/events", run["execution_id"].as_str().unwrap());
    for wrong in ["x", "1", "1.2.3", "-1.0", "9999999999999.1"] {
        let answer = server.get(&path).header("last-event-id", wrong).send().await.unwrap();
        refused(answer, 400, "bad_request").await;
    }
    let other = server.tenant("other").await;
    refused(server.request_as(&other, Method::GET, &path).send().await.unwrap(), 404, "not_found")
        .await;
    refused(server.get("/v1/executions/x/events").send().await.unwrap(), 404, "not_found").await;
    let (limited, _) = server.key(json!({ "name": "limited", "skills": ["another"] })).await;
    refused(
        server.request_as(&limited, Method::GET, &path).send().await.unwrap(),
        404,
        "not_found",
    )
    .await;
}

#[tokio::test]
async fn a_silent_run_shows_that_the_stream_lives() {
    let server = Server::start().await;
    server.publish_bash("silent", "sleep 600\n").await;
    let id = submit(&server, "silent").await;
    let mut reader = Reader::open(&server, &id, None).await;
    loop {
        tokio::select! {
            event = reader.next() => assert_eq!(event.unwrap().kind, "state"),
            () = tokio::time::sleep(std::time::Duration::from_millis(200)) => {}
        }
        if reader.comments > 0 {
            break;
        }
    }
    let cancel =
        server.request(Method::POST, &format!("/v1/executions/{id}/cancel")).send().await.unwrap();
    assert!(cancel.status().is_success());
    let rest = reader.rest().await;
    assert_eq!(rest.last().unwrap().data["status"], "cancelled");
}

#[tokio::test]
async fn a_shutdown_ends_streams_and_another_server_goes_on() {
    let shared = tempfile::tempdir().unwrap();
    let dsn = format!("sqlite:{}", shared.path().join("shared.db").display());
    let settings =
        [("db_dsn", dsn.as_str()), ("secret", "a secret that two servers share, long enough")];
    let first = Server::with(&[&settings[..], &[("drain_timeout", "5s")]].concat()).await;
    let second = Server::with(&settings).await;
    assert_eq!(second.key, "", "the first server's key is there already");
    first.publish_bash("slow", "echo begun; sleep 3; echo done\n").await;
    let id = submit(&first, "slow").await;
    // Whichever of the two runs it, both show it.
    let key = first.key.clone();
    let mut reader = Reader::open(&first, &id, None).await;
    let mut seen = Vec::new();
    while log(&seen) != "begun\n" {
        seen.push(reader.next().await.unwrap());
    }
    first.stop.cancel();
    seen.extend(reader.rest().await);
    let after = seen.last().unwrap().id.clone();
    let request = second.request_as(&key, Method::GET, &format!("/v1/executions/{id}/events"));
    let rest =
        Reader::of(request.header("last-event-id", after).send().await.unwrap()).rest().await;
    seen.extend(rest);
    let result = seen.last().unwrap();
    assert_eq!(result.kind, "result", "{seen:?}");
    assert!(log(&seen).starts_with("begun\n"));
    assert_eq!(log(&seen), result.data["logs"].as_str().unwrap());
    let (_home, ended) = first.shut_down().await;
    ended.unwrap();
}

#[tokio::test]
async fn servers_with_another_secret_are_kept_off_a_database() {
    let shared = tempfile::tempdir().unwrap();
    let dsn = format!("sqlite:{}", shared.path().join("shared.db").display());
    let server = Server::with(&[("db_dsn", &dsn)]).await;
    let data = shared.path().join("other");
    let other =
        [("db_dsn", dsn.as_str()), ("secret", "quite another secret, which is long enough")];
    let error = launch(&data, &other).await.err().unwrap().to_string();
    assert!(error.contains("SKILLBOX_SECRET") && !error.contains("quite another"), "{error}");
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
}
