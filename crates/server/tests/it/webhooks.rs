//! Webhooks, with a receiver that listens on this machine.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use data_encoding::BASE64;
use reqwest::Method;
use serde_json::{Value, json};
use store::{Store, TenantId, Webhook, WebhookState};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;

use crate::support::{Server, refused, until};

/// What a receiver got.
struct Call {
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// A receiver that answers with these statuses, one after the other, and then with 200.
struct Receiver {
    url: String,
    calls: mpsc::UnboundedReceiver<Call>,
}

#[derive(Clone)]
struct Desk {
    answers: Arc<Mutex<VecDeque<u16>>>,
    calls: mpsc::UnboundedSender<Call>,
}

impl Receiver {
    async fn start(answers: &[u16]) -> Receiver {
        Receiver::at(TcpListener::bind("127.0.0.1:0").await.unwrap(), answers)
    }

    fn at(listener: TcpListener, answers: &[u16]) -> Receiver {
        let (told, calls) = mpsc::unbounded_channel();
        let desk =
            Desk { answers: Arc::new(Mutex::new(answers.iter().copied().collect())), calls: told };
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let router = Router::new().fallback(receive).with_state(desk);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Receiver { url, calls }
    }

    async fn next(&mut self) -> Call {
        self.calls.recv().await.unwrap()
    }
}

async fn receive(
    State(desk): State<Desk>,
    request: Request,
) -> (StatusCode, [(&'static str, &'static str); 1]) {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap().to_vec();
    let status = desk.answers.lock().unwrap().pop_front().unwrap_or(200);
    desk.calls
        .send(Call { path: parts.uri.path().to_owned(), headers: parts.headers, body })
        .unwrap();
    (StatusCode::from_u16(status).unwrap(), [("location", "/elsewhere")])
}

impl Call {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Checks the signature as a receiver would, with another implementation than the server's.
    fn is_signed_with(&self, secret: &str) -> bool {
        let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
        let mut message =
            format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp"))
                .into_bytes();
        message.extend_from_slice(&self.body);
        let signature = self.header("webhook-signature").strip_prefix("v1,").unwrap();
        let signature = BASE64.decode(signature.as_bytes()).unwrap();
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &key), &message, &signature).is_ok()
    }
}

const LOCAL: (&str, &str) = ("webhook_private_hosts", "127.0.0.1,localhost");

async fn submit(server: &Server, webhook: &str) -> String {
    let body = json!({ "skill": "quick", "mode": "async", "webhook": webhook });
    let answer = server.post("/v1/executions", &body).send().await.unwrap();
    assert_eq!(answer.status(), 202, "{}", answer.text().await.unwrap());
    answer.json::<Value>().await.unwrap()["execution_id"].as_str().unwrap().to_owned()
}

async fn secret(server: &Server, key: &str) -> String {
    let answer = server.request_as(key, Method::GET, "/v1/webhooks/secret").send().await.unwrap();
    answer.json::<Value>().await.unwrap()["secret"].as_str().unwrap().to_owned()
}

/// What the outbox says about an execution, as soon as it is so.
async fn outbox(server: &Server, id: &str, wanted: impl Fn(&Webhook) -> bool) -> Webhook {
    let store = Store::open(&format!("sqlite:{}", server.data.join("skillbox.db").display()))
        .await
        .unwrap();
    let (tenant, id) = (TenantId::try_from("default").unwrap(), id.parse().unwrap());
    until(async || store.get_webhook(&tenant, id).await.unwrap().filter(|webhook| wanted(webhook)))
        .await
}

#[tokio::test]
async fn the_end_of_a_run_is_told_and_signed() {
    let server = Server::with(&[LOCAL]).await;
    server
        .publish_bash(
            "quick",
            "echo secret-log; echo '{\"answer\":\"secret-output\"}' > \"$SANDBOX_OUTPUT\"\n",
        )
        .await;
    let mut receiver = Receiver::start(&[]).await;
    let id = submit(&server, &receiver.url).await;
    let call = receiver.next().await;
    assert_eq!((call.path.as_str(), call.header("webhook-id")), ("/hook", id.as_str()));
    let sent_at: i64 = call.header("webhook-timestamp").parse().unwrap();
    assert!((chrono::Utc::now().timestamp() - sent_at).abs() < 60);
    let body = call.json();
    assert_eq!(
        (&body["type"], &body["data"]["status"]),
        (&json!("execution.finished"), &json!("success"))
    );
    assert_eq!(
        (&body["data"]["execution_id"], &body["data"]["tenant_id"]),
        (&json!(id), &json!("default"))
    );
    let text = body.to_string();
    assert!(
        !text.contains("secret-log") && !text.contains("secret-output"),
        "what needs a key to read is not sent: {text}"
    );

    let own = secret(&server, &server.key).await;
    assert!(call.is_signed_with(&own));
    let other = server.tenant("other").await;
    let others = secret(&server, &other).await;
    assert_ne!(own, others);
    assert!(!call.is_signed_with(&others), "each tenant has its own secret");
    let mut forged = Call { path: call.path, headers: call.headers, body: call.body };
    forged.body[0] ^= 1;
    assert!(!forged.is_signed_with(&own));
    assert_eq!(
        outbox(&server, &id, |it| it.state != WebhookState::Pending).await.state,
        WebhookState::Delivered
    );
}

#[tokio::test]
async fn a_receiver_that_fails_is_called_again_with_the_same_id() {
    let server = Server::with(&[LOCAL]).await;
    server.publish_bash("quick", "true\n").await;
    let mut receiver = Receiver::start(&[500]).await;
    let id = submit(&server, &receiver.url).await;
    let (first, second) = (receiver.next().await, receiver.next().await);
    assert_eq!(
        (first.header("webhook-id"), second.header("webhook-id")),
        (id.as_str(), id.as_str())
    );
    assert_eq!(first.json(), second.json());
    assert!(second.is_signed_with(&secret(&server, &server.key).await));
    let delivered = outbox(&server, &id, |it| it.state == WebhookState::Delivered).await;
    assert_eq!(delivered.attempt, 2);
    assert!(receiver.calls.try_recv().is_err());
}

#[tokio::test]
async fn a_receiver_that_is_not_there_is_called_when_it_is() {
    let server = Server::with(&[LOCAL]).await;
    server.publish_bash("quick", "true\n").await;
    // The port is reserved, and refuses connections until a listener starts.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let id = submit(&server, &format!("http://{address}/hook")).await;
    let failed = outbox(&server, &id, |it| it.last_error.is_some()).await;
    assert_eq!(failed.last_error.as_deref(), Some("the receiver could not be reached"));
    let mut receiver = Receiver::at(socket.listen(16).unwrap(), &[]);
    assert_eq!(receiver.next().await.header("webhook-id"), id);
    outbox(&server, &id, |it| it.state == WebhookState::Delivered).await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_410_is_the_end() {
    let server = Server::with(&[LOCAL]).await;
    server.publish_bash("quick", "true\n").await;
    let mut receiver = Receiver::start(&[302, 410]).await;
    let moved = submit(&server, &receiver.url).await;
    assert_eq!(receiver.next().await.path, "/hook");
    let failed = outbox(&server, &moved, |it| it.last_error.is_some()).await;
    assert_eq!(failed.last_error.as_deref(), Some("the receiver answered 302"));
    let gone = submit(&server, &receiver.url).await;
    assert_eq!(receiver.next().await.path, "/hook");
    let dead = outbox(&server, &gone, |it| it.state == WebhookState::Dead).await;
    assert_eq!(dead.attempt, 1);
    let trail: Vec<Value> = server.get("/v1/audit").send().await.unwrap().json().await.unwrap();
    assert!(
        trail
            .iter()
            .any(|entry| entry["action"] == "webhook.give_up" && entry["object"] == gone.as_str())
    );
}

#[tokio::test]
async fn two_servers_tell_each_end_once() {
    let shared = tempfile::tempdir().unwrap();
    let dsn = format!("sqlite:{}", shared.path().join("shared.db").display());
    let settings =
        [LOCAL, ("db_dsn", &dsn), ("secret", "a secret that two servers share, long enough")];
    let first = Server::with(&settings).await;
    let second = Server::with(&settings).await;
    first.publish_bash("quick", "true\n").await;
    let mut receiver = Receiver::start(&[]).await;
    let store = Store::open(&dsn).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..20 {
        let through = if n % 2 == 0 { &first } else { &second };
        let body = json!({ "skill": "quick", "mode": "async", "webhook": receiver.url });
        let run = through
            .request_as(&first.key, Method::POST, "/v1/executions")
            .json(&body)
            .send()
            .await
            .unwrap();
        assert_eq!(run.status(), 202);
        ids.push(run.json::<Value>().await.unwrap()["execution_id"].as_str().unwrap().to_owned());
    }
    let tenant = TenantId::try_from("default").unwrap();
    for id in &ids {
        until(async || {
            let owed = store.get_webhook(&tenant, id.parse().unwrap()).await.unwrap();
            owed.filter(|owed| owed.state == WebhookState::Delivered)
        })
        .await;
    }
    // Nothing is owed any more, so nothing more can come.
    let mut told: Vec<String> = std::iter::from_fn(|| receiver.calls.try_recv().ok())
        .map(|call| call.header("webhook-id").to_owned())
        .collect();
    told.sort();
    ids.sort();
    assert_eq!(told, ids);
}

#[tokio::test]
async fn a_webhook_goes_to_the_public_internet_only() {
    let server = Server::start().await;
    server.publish_bash("quick", "true\n").await;
    for url in [
        "http://127.0.0.1/",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://10.0.0.1/",
        "https://172.16.0.1/",
        "https://192.168.0.1/",
        "https://100.64.0.1/",
        "https://0.0.0.0/",
        "https://[fd00::1]/",
        "https://[fe80::1]/",
        "https://224.0.0.1/",
        "https://user:pass@example.com/",
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "example.com",
        "",
    ] {
        let body = json!({ "skill": "quick", "mode": "async", "webhook": url });
        let answer = server.post("/v1/executions", &body).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{url}");
        let refusal = refused(answer, 400, "bad_request").await;
        assert!(refusal["message"].as_str().unwrap().starts_with("webhook "), "{refusal}");
    }
    for body in [
        json!({ "skill": "quick", "webhook": "https://example.com/" }),
        json!({ "skill": "quick", "mode": "sync", "webhook": "https://example.com/" }),
        json!({ "skill": "quick", "mode": "async", "webhook": { "url": "https://example.com/" } }),
    ] {
        refused(server.post("/v1/executions", &body).send().await.unwrap(), 400, "bad_request")
            .await;
    }
    // A name says nothing by itself. What it leads to is looked at when it is called.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let id = submit(&server, &format!("https://localhost:{port}/")).await;
    let failed = outbox(&server, &id, |it| it.last_error.is_some()).await;
    assert_eq!(failed.last_error.as_deref(), Some("the receiver could not be reached"));
    assert!(listener.accept().is_err(), "nobody knocked");
}
