//! Runs by tools: how each ends, what it leaves, and who stops it.

use std::time::Duration;

use serde_json::{Value, json};

use super::wire::{Session, call, last, request, rpc, tool};
use crate::support::{Server, manifest};

/// Waits until the only execution is in one of these states, and gives it back.
async fn execution(server: &Server, states: &[&str]) -> Value {
    for _ in 0..1200 {
        let rows: Vec<Value> =
            server.get("/v1/executions").send().await.unwrap().json().await.unwrap();
        let found = rows.into_iter().find(|row| states.iter().any(|state| row["status"] == *state));
        if let Some(row) = found {
            return row;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("no execution became {states:?}");
}

#[tokio::test]
async fn a_run_gives_text_structure_and_files_that_can_be_read_back() {
    let server = Server::start().await;
    let script = "mkdir \"$SANDBOX_FILES_DIR/a\"; printf 'ü' > \"$SANDBOX_FILES_DIR/a/b c.txt\"; \
                  head -c 20000000 /dev/zero > \"$SANDBOX_FILES_DIR/large\"; echo '{\"n\":1}' > \"$SANDBOX_OUTPUT\"\n";
    server.publish_bash("files", script).await;
    let run =
        tool(&server, &server.key, "run_skill_script", json!({ "skill": "files", "input": null }))
            .await;
    let told = &run["structuredContent"];
    assert_eq!(
        (&run["isError"], &told["status"], &told["output"]["n"]),
        (&json!(false), &json!("success"), &json!(1))
    );
    let id = told["execution_id"].as_str().unwrap();
    let uri = format!("execution://{id}/a/b%20c.txt");
    let link =
        run["content"].as_array().unwrap().iter().find(|block| block["uri"] == *uri).unwrap();
    assert_eq!((&link["type"], &link["size"]), (&json!("resource_link"), &json!(2)));

    let read = rpc(&server, &server.key, "resources/read", json!({ "uri": uri })).await;
    assert_eq!(read["result"]["contents"][0]["text"], "ü", "{read}");
    let large = rpc(
        &server,
        &server.key,
        "resources/read",
        json!({ "uri": format!("execution://{id}/large") }),
    )
    .await;
    assert!(
        large["error"]["message"].as_str().is_some_and(|said| said.contains("20000000 bytes long")),
        "{large}"
    );
    let stranger = server.tenant("other").await;
    for (key, uri) in [
        (&stranger, uri.clone()),
        (&server.key, format!("execution://{id}/../{id}/a/b%20c.txt")),
        (&server.key, "execution://nobody/a".to_owned()),
        (&server.key, "file:///etc/passwd".to_owned()),
        (&server.key, "skill://files/../../etc/passwd".to_owned()),
    ] {
        let read = rpc(&server, key, "resources/read", json!({ "uri": uri })).await;
        assert!(read["error"]["code"].is_i64() && read["result"].is_null(), "{uri}: {read}");
    }
}

#[tokio::test]
async fn a_run_that_did_not_end_well_says_how() {
    let server = Server::start().await;
    server.publish_bash("fails", "echo why >&2; exit 3\n").await;
    server.publish_bash("endless", "sleep 600\n").await;
    let greedy = "x = []\nwhile True: x.append(bytearray(1 << 20))\n";
    server.publish(&[("SKILL.md", &manifest("greedy", "")), ("main.py", greedy)]).await;
    let controls = server.run(json!({ "skill": "fails" })).await["isolation"]["controls"].take();
    let mut cases = vec![
        (json!({ "skill": "fails" }), "failed", "exited"),
        (json!({ "skill": "endless", "timeout": "200ms" }), "timeout", "timed_out"),
        (json!({ "skill": "fails", "script": "nothing.sh" }), "failed", "refused"),
    ];
    match controls["memory_limit"].is_string() {
        true => cases.push((json!({ "skill": "greedy" }), "failed", "out_of_memory")),
        false => println!(
            "NEEDS ROOT: mcp: memory that is used up was not tried: memory_limit is not enforced here"
        ),
    }
    for (arguments, status, outcome) in cases {
        let run = tool(&server, &server.key, "run_skill_script", arguments).await;
        let told = &run["structuredContent"];
        let seen = (&run["isError"], told["status"].as_str(), told["outcome"].as_str());
        assert_eq!(seen, (&json!(true), Some(status), Some(outcome)), "{run}");
    }
    let bad =
        tool(&server, &server.key, "run_skill_script", json!({ "skill": "fails", "no_such": 1 }))
            .await;
    assert!(bad["isError"] == true && bad.to_string().contains("no_such"), "{bad}");
}

#[tokio::test]
async fn each_skill_can_be_a_tool() {
    let server = Server::start().await;
    let schema = "input_schema: {type: object, properties: {n: {type: integer}}, required: [n]}\n";
    let script = "printf '%s' \"$SANDBOX_INPUT\" > \"$SANDBOX_OUTPUT\"\n";
    server.publish(&[("SKILL.md", &manifest("echo", schema)), ("main.sh", script)]).await;
    let ask = |message: Value| {
        let request = request(&server, &server.key, &message).build().unwrap();
        let mut request = request;
        request.url_mut().set_query(Some("tools=skills"));
        server.http.execute(request)
    };
    let listed = last(ask(super::wire::message("tools/list", json!({}))).await.unwrap()).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let own = tools.iter().find(|tool| tool["name"] == "skillbox_echo").unwrap();
    assert_eq!(own["inputSchema"]["required"], json!(["n"]));
    let answer = last(ask(call("skillbox_echo", json!({ "n": 7 }))).await.unwrap()).await;
    assert_eq!(answer["result"]["structuredContent"]["output"], json!({ "n": 7 }), "{answer}");
    let unknown = tool(&server, &server.key, "skillbox_echo", json!({ "n": 7 })).await;
    assert!(unknown["isError"] == true, "only when they were asked for: {unknown}");
}

#[tokio::test]
async fn a_client_without_a_session_that_goes_away_stops_its_run() {
    let server = Server::start().await;
    server.publish_bash("endless", "sleep 600\n").await;
    let message = call("run_skill_script", json!({ "skill": "endless" }));
    let waiting = tokio::spawn(request(&server, &server.key, &message).send());
    execution(&server, &["running"]).await;
    waiting.abort();
    execution(&server, &["cancelled"]).await;
}

#[tokio::test]
async fn a_cancelled_call_stops_its_run() {
    let server = Server::start().await;
    server.publish_bash("endless", "sleep 600\n").await;
    let session = Session::begin(&server, &server.key).await;
    let _answer = session.call(7, "run_skill_script", json!({ "skill": "endless" })).await;
    execution(&server, &["running"]).await;
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(session.send(&cancelled).await.status(), 202);
    execution(&server, &["cancelled"]).await;
}

#[tokio::test]
async fn the_end_of_a_session_stops_its_runs() {
    let server = Server::start().await;
    server.publish_bash("endless", "sleep 600\n").await;
    let session = Session::begin(&server, &server.key).await;
    let _answer = session.call(7, "run_skill_script", json!({ "skill": "endless" })).await;
    execution(&server, &["running"]).await;
    assert!(session.request(reqwest::Method::DELETE).send().await.unwrap().status().is_success());
    execution(&server, &["cancelled"]).await;
    assert_eq!(
        session.send(&json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/list" })).await.status(),
        404
    );
}

#[tokio::test]
async fn a_drain_lets_calls_finish_and_ends_what_only_listens() {
    let server = Server::start().await;
    server.publish_bash("slow", "sleep 1; echo '\"done\"' > \"$SANDBOX_OUTPUT\"\n").await;
    let session = Session::begin(&server, &server.key).await;
    let listening = session.request(reqwest::Method::GET).send().await.unwrap();
    assert_eq!(listening.status(), 200);
    let answer = session.call(7, "run_skill_script", json!({ "skill": "slow" })).await;
    execution(&server, &["running"]).await;
    server.stop.cancel();
    assert_eq!(last(answer).await["result"]["structuredContent"]["output"], "done");
    let _ = listening.bytes().await;
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
}
