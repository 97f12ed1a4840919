//! A stand-in for the Docker engine: it knows containers, volumes and images by their labels, and
//! writes down every request it gets.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use docker_proxy::{Address, PROXY_LABEL};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::task::{AbortHandle, JoinSet};

pub(crate) const OURS: &str = "0000000000000000000000000000000000000000000000000000000000000001";
pub(crate) const FOREIGN: &str = "00000000000000000000000000000000000000000000000000000000000000f0";
pub(crate) const MADE: &str = "00000000000000000000000000000000000000000000000000000000000000a1";
pub(crate) const VOLUME: &str = "skillbox-guest-1";
pub(crate) const IMAGE_ID: &str =
    "sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// An image that declares volumes.
pub(crate) const UNBOUNDED: &str =
    "sha256:5555555555555555555555555555555555555555555555555555555555555555";
/// How many volumes of ours it has.
pub(crate) const VOLUMES: usize = 3;

/// One request as the engine got it.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub method: String,
    pub target: String,
    pub body: String,
    pub headers: Vec<(String, String)>,
}

impl RecordedRequest {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

pub(crate) struct FakeEngine {
    directory: TempDir,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    task: AbortHandle,
}

impl FakeEngine {
    pub(crate) async fn start() -> FakeEngine {
        let directory = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(directory.path().join("engine.sock")).expect("a socket");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(accept(listener, Arc::clone(&requests))).abort_handle();
        FakeEngine { directory, requests, task }
    }

    pub(crate) fn address(&self) -> Address {
        Address::Unix(self.directory.path().join("engine.sock"))
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().expect("a lock").clone()
    }

    pub(crate) fn last(&self) -> RecordedRequest {
        self.requests().pop().expect("a request")
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: UnixListener, requests: Arc<Mutex<Vec<RecordedRequest>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let requests = Arc::clone(&requests);
        let service = service_fn(move |request| answer(request, Arc::clone(&requests)));
        connections.spawn(async move {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
                .await;
        });
    }
}

async fn answer(
    mut request: Request<Incoming>,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let path = head.uri.path().to_owned();
    let headers = head.headers.iter();
    requests.lock().expect("a lock").push(RecordedRequest {
        method: head.method.to_string(),
        target: head.uri.to_string(),
        body: String::from_utf8_lossy(&body).into_owned(),
        headers: headers
            .map(|(name, value)| {
                (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into())
            })
            .collect(),
    });
    if path.ends_with("/attach") {
        tokio::spawn(echo(upgrade));
        let response = Response::builder()
            .status(101)
            .header("Connection", "Upgrade")
            .header("Upgrade", "tcp");
        return Ok(response.body(Full::default()).expect("a response"));
    }
    let path = path.strip_prefix("/v1.44").unwrap_or(&path);
    let (status, body) = known(&head.method, path);
    let body = if status == 204 { Full::default() } else { Full::from(body.to_string()) };
    let response = Response::builder().status(StatusCode::from_u16(status).expect("a status"));
    let response =
        response.header("Api-Version", "1.44").header("Connection", "X-Hop").header("X-Hop", "1");
    Ok(response.body(body).expect("a response"))
}

/// Says everything in upper case, and when there is no more, how much it was.
async fn echo(upgrade: hyper::upgrade::OnUpgrade) {
    let mut stream = TokioIo::new(upgrade.await.expect("an upgrade"));
    let (mut buffer, mut total) = ([0; 4096], 0);
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(read) => {
                total += read;
                buffer[..read].make_ascii_uppercase();
                if stream.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
    let _ = stream.write_all(format!("END {total}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn known(method: &Method, path: &str) -> (u16, Value) {
    let ours = BTreeMap::from([(PROXY_LABEL, super::INSTANCE)]);
    let container = |id: &str, labels: Value| json!({"Id": id, "Config": {"Labels": labels}, "Secret": "of the engine"});
    let missing = (404, json!({"message": "the engine knows nothing of it"}));
    if *method != Method::GET {
        return match path {
            "/containers/create" => (201, json!({"Id": MADE, "Warnings": []})),
            "/volumes/create" => (201, json!({"Name": VOLUME, "Driver": "local", "Labels": ours})),
            _ if path.ends_with("/wait") => (200, json!({"StatusCode": 0})),
            _ => (204, Value::Null),
        };
    }
    let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
    match parts.as_slice() {
        ["_ping"] => (200, json!("OK")),
        ["version"] | ["info"] => (200, json!({"Name": "engine"})),
        ["containers", "json"] => (200, json!([])),
        ["containers", OURS | "skillbox-mine", "json"] => (200, container(OURS, json!(ours))),
        ["containers", FOREIGN | "skillbox-theirs", "json"] => {
            (200, container(FOREIGN, json!({PROXY_LABEL: "other"})))
        }
        ["containers", "skillbox-bare", "json"] => (200, container(FOREIGN, Value::Null)),
        ["containers", OURS | MADE, "stats"] => (200, json!({"pids_stats": {}})),
        ["volumes"] => {
            (200, json!({"Volumes": vec![json!({"Name": VOLUME}); VOLUMES], "Warnings": null}))
        }
        ["volumes", VOLUME] => {
            (200, json!({"Name": VOLUME, "Driver": "local", "Labels": ours, "Options": null}))
        }
        ["volumes", "skillbox-bound"] => (
            200,
            json!({"Name": "skillbox-bound", "Driver": "local", "Labels": ours, "Options": {"device": "/"}}),
        ),
        ["volumes", name @ "skillbox-theirs"] => {
            (200, json!({"Name": name, "Driver": "local", "Labels": null, "Options": null}))
        }
        ["images", "python:3.12-slim", "json"] => (200, json!({"Id": IMAGE_ID, "RepoDigests": []})),
        ["images", "with-volumes:1", "json"] => {
            (200, json!({"Id": UNBOUNDED, "RepoDigests": [], "Config": {"Volumes": {"/data": {}}}}))
        }
        _ => missing,
    }
}
