//! Bad requests of every kind: always 4xx with the documented body, never 5xx.

use reqwest::Method;
use serde_json::json;

use crate::support::{Server, refused};

#[tokio::test]
async fn unknown_routes_and_wrong_methods() {
    let server = Server::start().await;
    for path in ["/", "/v1", "/v1/", "/v1/nothing", "/v1/executions/", "/v1/skills/a", "/%00"] {
        refused(server.get(path).send().await.unwrap(), 404, "not_found").await;
    }
    let cases =
        [(Method::PUT, "/v1/executions", "GET,HEAD,POST"), (Method::POST, "/health", "GET,HEAD")];
    for (method, path, allow) in cases {
        let answer = server.request(method, path).send().await.unwrap();
        let mut allowed: Vec<String> = answer.headers()["allow"]
            .to_str()
            .unwrap()
            .split(',')
            .map(|word| word.trim().to_owned())
            .collect();
        allowed.sort();
        assert_eq!(allowed.join(","), allow);
        refused(answer, 405, "method_not_allowed").await;
    }
    let answer = server.request(Method::DELETE, "/v1/blobs/AAAA").send().await.unwrap();
    refused(answer, 405, "method_not_allowed").await;
}

#[tokio::test]
async fn every_answer_carries_a_request_id() {
    let server = Server::start().await;
    let id = async |given: Option<&str>| {
        let mut request = server.get("/health");
        if let Some(given) = given {
            request = request.header("x-request-id", given);
        }
        request.send().await.unwrap().headers()["x-request-id"].to_str().unwrap().to_owned()
    };
    assert_eq!(id(Some("my-id.1_A")).await, "my-id.1_A");
    assert_ne!(id(None).await, id(None).await);
    for odd in ["has space", "quote\"", &"x".repeat(129), "semi;colon"] {
        assert_ne!(id(Some(odd)).await, odd);
    }
}

#[tokio::test]
async fn bodies_of_the_wrong_kind() {
    let server = Server::start().await;
    let post = |kind: Option<&str>, body: Vec<u8>| {
        let request = server.request(Method::POST, "/v1/executions").body(body);
        match kind {
            Some(kind) => request.header("content-type", kind).send(),
            None => request.send(),
        }
    };
    for kind in
        [None, Some("text/plain"), Some("application/zip"), Some(""), Some("application/jsonx")]
    {
        refused(post(kind, b"{}".to_vec()).await.unwrap(), 415, "unsupported_media_type").await;
    }
    let zipped = server.post("/v1/executions", &json!({})).header("content-encoding", "gzip");
    refused(zipped.send().await.unwrap(), 415, "unsupported_media_type").await;
    for kind in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json"]
    {
        refused(post(Some(kind), b"{}".to_vec()).await.unwrap(), 400, "bad_request").await;
    }
    let deep = |open: &str, levels: usize| open.repeat(levels).into_bytes();
    let bodies = [
        b"".to_vec(),
        b"{".to_vec(),
        b"nonsense".to_vec(),
        b"[]".to_vec(),
        // The fields of a request in their order, without their names.
        format!("[\"a\"{}]", ",null".repeat(12)).into_bytes(),
        b"null".to_vec(),
        b"42".to_vec(),
        b"{\"skill\":1}".to_vec(),
        b"{\"skill\":\"a\"} trailing".to_vec(),
        b"{\"skill\":\"\xff\"}".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        deep("[", 100_000),
        deep("{\"skill\":", 100_000),
        [b"{\"skill\":\"a\",\"input\":".to_vec(), deep("[", 100_000)].concat(),
        [b"{\"skill\":\"a\",\"input\":".to_vec(), deep("[", 5000), deep("]", 5000), b"}".to_vec()]
            .concat(),
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let answer = post(Some("application/json"), body).await.unwrap();
        assert_eq!(answer.status(), 400, "{shown}");
        let body = refused(answer, 400, "bad_request").await;
        assert!(!body["message"].as_str().unwrap().contains("struct"), "{body}");
    }
    let body = refused(
        post(Some("application/json"), b"{\"skill\":\n tru}".to_vec()).await.unwrap(),
        400,
        "bad_request",
    );
    assert!(body.await["message"].as_str().unwrap().contains("line 2 column"));
}

#[tokio::test]
async fn bodies_of_the_wrong_shape() {
    let server = Server::start().await;
    let bodies = [
        json!({}),
        json!({ "skill": "" }),
        json!({ "skill": null }),
        json!({ "skill": ["a"] }),
        json!({ "skill": "a", "version": 1 }),
        json!({ "skill": "a", "env": ["A=b"] }),
        json!({ "skill": "a", "env": { "A": 1 } }),
        json!({ "skill": "a", "args": "x" }),
        json!({ "skill": "a", "args": [1] }),
        json!({ "skill": "a", "stdin": {} }),
        json!({ "skill": "a", "cwd": "/etc" }),
        json!({ "skill": "a", "timeout": "soon" }),
        json!({ "skill": "a", "timeout": "0s" }),
        json!({ "skill": "a", "timeout": -1 }),
        json!({ "skill": "a", "limits": { "memory": "much" } }),
        json!({ "skill": "a", "limits": { "cpu": "0" } }),
        json!({ "skill": "a", "limits": ["64Mi", "1"] }),
        json!({ "skill": "a", "mode": "later" }),
        json!({ "skill": "a", "webhook": { "url": "http://example.com" } }),
        json!({ "skill": "a", "input_files": "0190c0de-0000-7000-8000-000000000000" }),
        json!({ "skill": "a", "input_files": ["x".repeat(1000)] }),
    ];
    for body in bodies {
        let answer = server.post("/v1/executions", &body).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{body}");
        refused(answer, 400, "bad_request").await;
    }
    for key in ["", &"k".repeat(256)] {
        let answer =
            server.post("/v1/executions", &json!({ "skill": "a" })).header("idempotency-key", key);
        refused(answer.send().await.unwrap(), 400, "bad_request").await;
    }
}

#[tokio::test]
async fn oversize_bodies() {
    let server = Server::with(&[("max_body_size", "1000"), ("max_skill_size", "2000")]).await;
    let body = json!({ "skill": "a", "input": "x".repeat(2000) });
    refused(server.post("/v1/executions", &body).send().await.unwrap(), 413, "too_large").await;
    // Without a length, too: the limit holds while the body streams in.
    let pieces =
        futures_util::stream::iter((0..100).map(|_| Ok::<_, std::io::Error>(vec![b' '; 100])));
    let endless =
        server.request(Method::POST, "/v1/executions").header("content-type", "application/json");
    refused(
        endless.body(reqwest::Body::wrap_stream(pieces)).send().await.unwrap(),
        413,
        "too_large",
    )
    .await;

    let upload =
        server.request(Method::POST, "/v1/skills").header("content-type", "application/zip");
    refused(upload.body(vec![0; 2001]).send().await.unwrap(), 413, "too_large").await;
    let form = reqwest::multipart::Form::new()
        .part("file", reqwest::multipart::Part::bytes(vec![0; 2001]));
    let upload = server.request(Method::POST, "/v1/skills").multipart(form);
    refused(upload.send().await.unwrap(), 413, "too_large").await;
    // Far more than the sockets hold: the client receives the reason and no broken pipe.
    for key in [server.key.as_str(), "wrong"] {
        let upload = server
            .request_as(key, Method::POST, "/v1/skills")
            .header("content-type", "application/zip");
        let answer = upload.body(vec![0; 60 << 20]).send().await.unwrap();
        assert_eq!(answer.status(), if key == "wrong" { 401 } else { 413 });
    }
    let huge = reqwest::multipart::Form::new()
        .part("other", reqwest::multipart::Part::bytes(vec![0; 2 << 20]));
    let upload = server.request(Method::POST, "/v1/skills").multipart(huge);
    refused(upload.send().await.unwrap(), 413, "too_large").await;
}

#[tokio::test]
async fn malformed_ids_and_names_are_404() {
    let server = Server::start().await;
    let long = "a".repeat(5000);
    let odd = [
        "x", "0", "-1", "%00", "%ff%fe", "..%2f..%2fetc", "%2e%2e", "a%2Fb", "%0d%0aX",
        "'%20OR%201=1", "null", &long, "0190c0de-0000-7000-8000-00000000000",
        "0190c0de-0000-7000-8000-000000000000", "%F0%9F%A6%80",
    ];
    for id in odd {
        for path in [
            format!("/v1/executions/{id}"),
            format!("/v1/executions/{id}/logs"),
            format!("/v1/executions/{id}/files"),
            format!("/v1/executions/{id}/files/{id}"),
            format!("/v1/skills/{id}/latest"),
            format!("/v1/skills/a/{id}"),
            format!("/v1/skills/{id}/versions"),
            format!("/v1/skills/{id}/{id}/content"),
            format!("/v1/skills/{id}/{id}/files/{id}"),
            format!("/v1/tenants/{id}"),
        ] {
            // What a client makes another path of before it sends it is another question.
            if path.contains("%2e%2e/files") && path.starts_with("/v1/executions") {
                continue;
            }
            let answer = server.get(&path).send().await.unwrap();
            assert_eq!(answer.status(), 404, "{}", &path[..path.len().min(80)]);
            refused(answer, 404, "not_found").await;
        }
        let answer = server
            .request(Method::POST, &format!("/v1/executions/{id}/cancel"))
            .send()
            .await
            .unwrap();
        refused(answer, 404, "not_found").await;
        for path in [
            format!("/v1/skills/{id}/1.0.0"),
            format!("/v1/keys/{id}"),
            format!("/v1/tenants/{id}"),
        ] {
            refused(server.request(Method::DELETE, &path).send().await.unwrap(), 404, "not_found")
                .await;
        }
        let answer = server.get(&format!("/v1/blobs/{id}")).send().await.unwrap();
        assert!(matches!(answer.status().as_u16(), 403 | 404), "{id}");
    }
}

#[tokio::test]
async fn malformed_queries_are_400() {
    let server = Server::start().await;
    for query in [
        "limit=0", "limit=-1", "limit=x", "limit=", "limit=99999999999999999999", "offset=-1",
        "offset=x", "cursor=x", "cursor=AAAA", "limit=1&limit=2",
    ] {
        for list in ["/v1/executions", "/v1/skills", "/v1/keys", "/v1/tenants", "/v1/audit"] {
            let answer = server.get(&format!("{list}?{query}")).send().await.unwrap();
            assert_eq!(answer.status(), 400, "{list}?{query}");
            refused(answer, 400, "bad_request").await;
        }
    }
    for query in ["status=done", "since=yesterday", "key=mine"] {
        let answer = server.get(&format!("/v1/executions?{query}")).send().await.unwrap();
        refused(answer, 400, "bad_request").await;
    }
    assert_eq!(server.get("/v1/skills?limit=100000&unknown=1").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn health_and_readiness_need_no_key() {
    let server = Server::start().await;
    let text = async |path: &str| {
        let answer = server.http.get(format!("{}{path}", server.url)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(text("/health").await, (200, r#"{"status":"ok"}"#.into()));
    let (status, body) = text("/ready").await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        body,
        r#"{"status":"ready","checks":{"postgres":"ok","blobs":"ok","sandbox":"ok"}}"#
    );
}

#[tokio::test]
async fn our_own_failures_show_nothing_of_the_inside() {
    let server = Server::start().await;
    server.publish_bash("gone", "true\n").await;
    std::fs::remove_dir_all(server.data.join("blobs")).unwrap();
    for path in ["/v1/skills/gone/latest/content", "/v1/skills/gone/latest/files/SKILL.md"] {
        let body = refused(server.get(path).send().await.unwrap(), 500, "internal").await;
        let message = body["message"].as_str().unwrap();
        assert!(
            !message.contains("blobs") && !message.contains(&server.data.display().to_string()),
            "{message}"
        );
    }
}
