//! `pods/attach` over a websocket: one channel for each stream of a container.

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
/// Since v5: closes the channel in the next byte.
const CLOSE: u8 = 255;

/// The supported protocols, in the order of preference.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// How long a client may take to close after the end of the output.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub(super) struct AttachQuery {
    container: String,
    stdin: Option<String>,
    stdout: Option<String>,
    stderr: Option<String>,
}

pub(super) async fn attach(
    State(api): Context,
    Path((namespace, name)): Path<(String, String)>,
    Query(streams): Query<AttachQuery>,
    request: Request<Body>,
) -> Result<Response, Response> {
    let headers = request.headers();
    // A websocket handshake is a GET; since 1.35 it needs the permission to create as well.
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

/// The container, if it runs; else the error of a real API server or kubelet.
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

/// The response that switches protocols, and the chosen protocol.
fn upgrade(headers: &HeaderMap) -> Result<(&'static str, Response), StatusError> {
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or_else(|| {
        StatusError::bad_request(
            "unable to upgrade: missing upgrade headers in request: this stand-in speaks websocket",
        )
    })?;
    let offered =
        headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<_> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
    // The first of the client's protocols that the server supports.
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
    /// Whether a client can close its input without disconnecting.
    half_close: bool,
}

impl AttachSession {
    /// Runs until the container has ended or the client has disconnected.
    async fn run(mut self, upgraded: Upgraded) {
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        let (mut sender, mut receiver) = socket.split();
        let (container, hosted) = (self.container.clone(), self.hosted.clone());
        let to_client = async {
            // An empty message on the lowest output channel tells the client that the streams are
            // ready.
            let first = if self.outputs.0 { STDOUT } else { STDERR };
            sender.send(Message::binary(vec![first])).await.ok()?;
            while let Some((output, bytes)) = self.output.recv().await {
                let (channel, wanted) = match output {
                    StdStream::Stdout => (STDOUT, self.outputs.0),
                    StdStream::Stderr => (STDERR, self.outputs.1),
                };
                if hosted.lost.is_cancelled() {
                    // A failed machine sends nothing, not even the end of a stream.
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
                // Both kinds of frames are valid; the Python client sends text frames.
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
            // Closing a socket with unread input resets it, and the client would lose output that
            // it has not read yet.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, from_client).await;
        }
    }
}

/// Closes the input of a container with `stdinOnce` when its client closes or disconnects.
async fn end_input(container: &RuncContainer, once: bool) {
    if once {
        container.stdin.lock().await.take();
    }
}
