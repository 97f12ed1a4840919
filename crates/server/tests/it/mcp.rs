//! `/mcp` on the wire: nothing here knows the protocol's SDK.

mod calls;
mod sessions;
mod wire;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Server, manifest, refused, zip};
use wire::{call, names, request, rpc, tool};

#[tokio::test]
async fn a_key_gets_through_mcp_what_it_gets_through_the_api() {
    let server = Server::start().await;
    server.publish_bash("one", "echo 1\n").await;
    server.publish_bash("two", "echo 2\n").await;
    let (reader, _) = server.key(json!({ "name": "r", "scopes": ["read"] })).await;
    let (runner, _) = server.key(json!({ "name": "x", "scopes": ["execute"] })).await;
    let (publisher, _) = server.key(json!({ "name": "p", "scopes": ["publish"] })).await;
    let limited = json!({ "name": "l", "scopes": ["read", "execute"], "skills": ["one"] });
    let (limited, _) = server.key(limited).await;
    let stranger = server.tenant("other").await;

    assert_eq!(names(&tool(&server, &reader, "list_skills", json!({})).await), ["one", "two"]);
    let run = tool(&server, &reader, "run_skill_script", json!({ "skill": "one" })).await;
    assert!(
        run["isError"] == true && run.to_string().contains("lacks the scope `execute`"),
        "{run}"
    );

    let run = tool(&server, &runner, "run_skill_script", json!({ "skill": "one" })).await;
    assert_eq!(run["structuredContent"]["status"], "success", "{run}");
    for (name, arguments) in [("list_skills", json!({})), ("load_skill", json!({ "skill": "one" }))]
    {
        let answer = tool(&server, &runner, name, arguments).await;
        assert!(
            answer["isError"] == true && answer.to_string().contains("lacks the scope `read`"),
            "{answer}"
        );
    }
    refused(
        request(&server, &publisher, &call("list_skills", json!({}))).send().await.unwrap(),
        403,
        "forbidden",
    )
    .await;
    refused(
        request(&server, "sk-wrong", &call("list_skills", json!({}))).send().await.unwrap(),
        401,
        "unauthorized",
    )
    .await;

    for (key, seen) in [(&limited, vec!["one"]), (&stranger, vec![])] {
        assert_eq!(names(&tool(&server, key, "list_skills", json!({})).await), seen);
        for (name, arguments) in [
            ("load_skill", json!({ "skill": "two" })),
            ("read_skill_resource", json!({ "skill": "two", "path": "SKILL.md" })),
            ("run_skill_script", json!({ "skill": "two" })),
        ] {
            let answer = tool(&server, key, name, arguments).await;
            assert!(
                answer["isError"] == true && answer.to_string().contains("no skill `two`"),
                "{answer}"
            );
        }
        let read =
            rpc(&server, key, "resources/read", json!({ "uri": "skill://two/SKILL.md" })).await;
        assert!(
            read["error"]["message"].as_str().is_some_and(|said| said.contains("no skill")),
            "{read}"
        );
        let listed = rpc(&server, key, "skills/list", json!({})).await;
        assert_eq!(
            listed["result"]["skills"].as_array().map(Vec::len),
            Some(seen.len()),
            "{listed}"
        );
    }
}

#[tokio::test]
async fn what_is_held_for_a_review_is_not_offered() {
    let server = Server::start().await;
    let policy = json!({ "policy": { "scan": "review" } });
    let answer =
        server.request(Method::PUT, "/v1/tenants/default").json(&policy).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let miner = "echo ran\n: stratum+tcp://pool.example:3333\n";
    let upload =
        server.request(Method::POST, "/v1/skills").header("content-type", "application/zip");
    let held = upload
        .body(zip(&[("SKILL.md", &manifest("held", "version: 1.0.0\n")), ("main.sh", miner)]));
    assert_eq!(held.send().await.unwrap().status(), 202);

    let key = &server.key;
    assert!(names(&tool(&server, key, "list_skills", json!({})).await).is_empty());
    assert_eq!(
        rpc(&server, key, "resources/list", json!({})).await["result"]["resources"],
        json!([])
    );
    let load = tool(&server, key, "load_skill", json!({ "skill": "held" })).await;
    assert!(load["isError"] == true && load.to_string().contains("no skill `held`"), "{load}");
    let named = json!({ "skill": "held", "version": "1.0.0" });
    let run = tool(&server, key, "run_skill_script", named.clone()).await;
    assert_eq!(run["structuredContent"]["outcome"], server.run(named).await["outcome"]);
    assert_eq!(
        (&run["isError"], &run["structuredContent"]["outcome"]),
        (&json!(true), &json!("refused"))
    );
}

#[tokio::test]
async fn other_pages_names_and_bodies_are_refused() {
    let server = Server::start().await;
    let listing = call("list_skills", json!({}));
    let answer = request(&server, &server.key, &listing)
        .header("host", "evil.example")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 403);
    let answer = request(&server, &server.key, &listing)
        .header("origin", "https://evil.example")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 403);
    let answer = request(&server, &server.key, &listing)
        .header("origin", "http://localhost:7")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);

    let raw = |body: &'static str| request(&server, &server.key, &Value::Null).body(body).send();
    for (body, code) in
        [("{", -32700), ("[]", -32600), ("7", -32600), (r#"{"jsonrpc":"2.0"}"#, -32600)]
    {
        let answer = raw(body).await.unwrap();
        assert_eq!(answer.status(), 400, "{body}");
        assert_eq!(answer.json::<Value>().await.unwrap()["error"]["code"], code, "{body}");
    }
    let deep = "[".repeat(100_000);
    let answer = request(&server, &server.key, &Value::Null).body(deep).send().await.unwrap();
    assert_eq!(answer.status(), 400);
    let wrong = server.request(Method::POST, "/mcp?tools=all").body("{}").send().await.unwrap();
    refused(wrong, 400, "bad_request").await;
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let server = Server::with(&[("max_body_size", "65536")]).await;
    let large = call("load_skill", json!({ "skill": "x".repeat(70_000) }));
    refused(request(&server, &server.key, &large).send().await.unwrap(), 413, "too_large").await;
}
