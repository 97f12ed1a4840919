//! `pods/attach` over a websocket: the streams of a container, a channel each.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderMap, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

use super::{ApiState, Context, is_set};
use crate::access::AccessRequest;
use crate::node::HostedPod;
use crate::node::container::RuncContainer;
use crate::node::streams::StdStream;
use crate::status_error::StatusError;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Since v5: the channel in the next byte has no more.
const CLOSE: u8 = 255;

/// What is spoken, the better first.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// How long a client has to notice that all was said.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct AttachQuery {
    container: String,
    stdin: Option<String>,
    stdout: Option<String>,
    stderr: Option<String>,
}

pub async fn attach(
    State(api): Context,
    Path((namespace, name)): Path<(String, String)>,
    Query(streams): Query<AttachQuery>,
    request: Request<Body>,
) -> Result<Response, Response> {
    let headers = request.headers();
    // A websocket begins with a GET; since 1.35 whoever may not create is refused as well.
    for verb in ["get", "create"] {
        let wanted =
            AccessRequest { verb, resource: "pods/attach", namespace: &namespace, name: &name };
        api.access.check(headers, &wanted).map_err(IntoResponse::into_response)?;
    }
    let missing = || StatusError::not_found("pods", &name).into_response();
    let pod = api.store.get(&namespace, &name).ok_or_else(missing)?;
    let (hosted, container) = find(&api, &pod, &streams.container).map_err(|answer| *answer)?;
    let (protocol, answer) = upgrade(headers).map_err(IntoResponse::into_response)?;
    let attached = AttachSession {
        stdin: is_set(&streams.stdin),
        outputs: (is_set(&streams.stdout), is_set(&streams.stderr)),
        stdin_once: stdin_once(&pod, &container.0),
        output: container.1.streams.listen(),
        container: container.1,
        hosted,
        half_close: protocol == PROTOCOLS[0],
    };
    let mut cut = api.attachments.subscribe();
    cut.mark_unchanged();
    let up = request.extensions().get::<CancellationToken>().cloned().unwrap_or_default();
    tokio::spawn(async move {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            let (container, once) =
                (attached.container.clone(), attached.stdin && attached.stdin_once);
            tokio::select! {
                () = attached.run(upgraded) => {}
                _ = cut.changed() => {}
                () = up.cancelled() => {}
            }
            end_input(&container, once).await;
        }
    });
    Ok(answer)
}

type AttachTarget = (Arc<HostedPod>, (String, Arc<RuncContainer>));

/// The container, if it runs: else what an API server or a kubelet says.
fn find(api: &ApiState, pod: &Pod, wanted: &str) -> Result<AttachTarget, Box<Response>> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let spec = pod.spec.clone().unwrap_or_default();
    let all = || {
        spec.init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
            .map(|container| &container.name)
    };
    let bad = |message: String| Box::new(StatusError::bad_request(message).into_response());
    let container = match (wanted, spec.containers.as_slice()) {
        ("", [only]) => only.name.clone(),
        ("", many) => {
            let names: Vec<_> = many.iter().map(|container| container.name.as_str()).collect();
            return Err(bad(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                names.join(" ")
            )));
        }
        (wanted, _) if all().any(|name| name == wanted) => wanted.to_owned(),
        (wanted, _) => return Err(bad(format!("container {wanted} is not valid for pod {name}"))),
    };
    if spec.node_name.is_none() {
        return Err(bad(format!("pod {name} does not have a host assigned")));
    }
    let kubelet =
        |message: String| Box::new((StatusCode::INTERNAL_SERVER_ERROR, message).into_response());
    let hosted = api.node.hosted(pod.metadata.uid.as_deref().unwrap_or_default());
    let Some(hosted) = hosted.filter(|hosted| !hosted.lost.is_cancelled()) else {
        return Err(Box::new(StatusError::kubelet_unreachable().into_response()));
    };
    match hosted.container(&container).filter(|found| found.is_running()) {
        Some(found) => Ok((hosted, (container, found))),
        None => {
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            Err(kubelet(format!("container {container} not found in pod {name}_{namespace}")))
        }
    }
}

fn stdin_once(pod: &Pod, name: &str) -> bool {
    let spec = pod.spec.iter().flat_map(|spec| &spec.containers);
    spec.filter(|container| container.name == name)
        .any(|container| container.stdin_once == Some(true))
}

/// The answer that changes the protocol, and which one was chosen.
fn upgrade(headers: &HeaderMap) -> Result<(&'static str, Response), StatusError> {
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or_else(|| {
        StatusError::bad_request(
            "unable to upgrade: missing upgrade headers in request: this stand-in speaks websocket",
        )
    })?;
    let offered =
        headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<_> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
    // The server takes the first of the client's that it knows.
    let chosen = offered.iter().find_map(|name| PROTOCOLS.iter().find(|known| *known == name));
    let chosen = *chosen.ok_or_else(|| {
        StatusError::bad_request(format!(
            "unable to upgrade: unable to negotiate protocol: client supports {offered:?}"
        ))
    })?;
    let answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(UPGRADE, "websocket")
        .header(CONNECTION, "Upgrade")
        .header(SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes()))
        .header(SEC_WEBSOCKET_PROTOCOL, chosen)
        .body(Body::empty())
        .map_err(|error| StatusError::bad_request(error.to_string()))?;
    Ok((chosen, answer))
}

struct AttachSession {
    container: Arc<RuncContainer>,
    hosted: Arc<HostedPod>,
    output: mpsc::Receiver<(StdStream, Bytes)>,
    stdin: bool,
    outputs: (bool, bool),
    stdin_once: bool,
    /// Whether a client can say that there is no more input without going away.
    half_close: bool,
}

impl AttachSession {
    /// Until the container has ended, or its client has gone.
    async fn run(mut self, upgraded: Upgraded) {
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        let (mut sender, mut receiver) = socket.split();
        let (container, hosted) = (self.container.clone(), self.hosted.clone());
        let to_client = async {
            // The lowest channel that can be written says that all is set up.
            let first = if self.outputs.0 { STDOUT } else { STDERR };
            sender.send(Message::binary(vec![first])).await.ok()?;
            while let Some((output, bytes)) = self.output.recv().await {
                let (channel, wanted) = match output {
                    StdStream::Stdout => (STDOUT, self.outputs.0),
                    StdStream::Stderr => (STDERR, self.outputs.1),
                };
                if hosted.lost.is_cancelled() {
                    // Nothing comes from a machine that is gone, the end of a stream neither.
                    hosted.wait_until_removed.cancelled().await;
                    return None;
                }
                if wanted {
                    let message = [&[channel], &bytes[..]].concat();
                    sender.send(Message::binary(message)).await.ok()?;
                }
            }
            if hosted.lost.is_cancelled() {
                hosted.wait_until_removed.cancelled().await;
                return None;
            }
            let status = json!({"metadata": {}, "status": "Success"}).to_string();
            sender.send(Message::binary([&[STATUS], status.as_bytes()].concat())).await.ok()?;
            sender.close().await.ok()
        };
        let from_client = async {
            let mut open = self.stdin;
            while let Some(Ok(message)) = receiver.next().await {
                // The real one takes either kind of frame; the Python client sends texts as text.
                let (Message::Binary(_) | Message::Text(_)) = message else { continue };
                let bytes = message.into_data();
                match bytes.first() {
                    Some(&STDIN) if open && bytes.len() > 1 => {
                        open = container.write(&bytes[1..]).await
                    }
                    Some(&CLOSE) if self.half_close && bytes.get(1) == Some(&STDIN) => {
                        end_input(&container, self.stdin && self.stdin_once).await;
                        open = false;
                    }
                    _ => {}
                }
            }
        };
        tokio::pin!(to_client, from_client);
        let ended = tokio::select! {
            ended = &mut to_client => ended.is_some(),
            () = &mut from_client => false,
        };
        if ended {
            // A client that is still sending would not see what was sent to it if this side just
            // went away.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, from_client).await;
        }
    }
}

/// A container that reads from one client only has no more to read when that one has no more to
/// say.
async fn end_input(container: &RuncContainer, once: bool) {
    if once {
        container.stdin.lock().await.take();
    }
}
