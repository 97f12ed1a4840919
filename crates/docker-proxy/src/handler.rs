//! One request: checked, rewritten, sent to the engine, and its response returned.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::cache::EngineCache;
use crate::config::ProxyConfig;
use crate::container::ContainerBody;
use crate::engine::{EngineClient, EngineRequest};
use crate::fill_limit::FillRateLimit;
use crate::filters;
use crate::head::RequestHead;
use crate::host::AllowedHosts;
use crate::labels::{LabelMap, PROXY_LABEL};
use crate::owned::OwnedResources;
use crate::policy;
use crate::request_error::{RequestError, RequestResult, malformed};
use crate::routes::RouteAction;
use crate::volume::{self, VolumeBody};
use crate::{document, hijack};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// State shared by all connections.
pub(crate) struct RequestHandler {
    pub config: ProxyConfig,
    engine: EngineClient,
    hosts: AllowedHosts,
    cache: EngineCache,
    fill_limit: FillRateLimit,
    /// Held while volumes are counted and one is created.
    volume_creation: Mutex<()>,
}

/// How a forwarded request affects its connection.
#[derive(Default)]
pub(crate) struct Forwarded {
    /// The response takes as long as a container runs.
    pub is_long_running: bool,
    /// Both sides of a stream, available once the response has been sent.
    pub tunnel: Option<hijack::PendingTunnel>,
}

impl RequestHandler {
    pub(crate) fn new(config: ProxyConfig) -> RequestHandler {
        let engine = EngineClient::new(config.engine.clone(), config.limits.clone());
        let hosts = AllowedHosts::new(&config.listen, &config.hosts);
        RequestHandler {
            config,
            engine,
            hosts,
            cache: EngineCache::default(),
            fill_limit: FillRateLimit::default(),
            volume_creation: Mutex::default(),
        }
    }

    /// Handles one request that was received on the local address `local`.
    pub(crate) async fn handle(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        local: Option<IpAddr>,
    ) -> RequestResult<(Response<Body>, Forwarded)> {
        let client = hyper::upgrade::on(&mut request);
        let (parts, body) = request.into_parts();
        // The head is checked completely before the body is read: a request that is rejected
        // anyway must not make us buffer its body.
        self.hosts.check(&parts.headers, local)?;
        let head = RequestHead::parse(&parts)?;
        let body = self.read_body(&parts.headers, body).await?;
        // Two concurrent creations would otherwise both see one free place below the limit. The
        // lock is held until the engine has responded, because it lists a volume only then.
        let _creation = match head.route.action {
            RouteAction::CreateVolume => Some(self.volume_creation.lock().await),
            RouteAction::Read
            | RouteAction::InspectImage
            | RouteAction::ListContainers
            | RouteAction::CreateContainer
            | RouteAction::UseContainer
            | RouteAction::WaitContainer
            | RouteAction::AttachContainer
            | RouteAction::InspectVolume => None,
        };
        let engine_request = self.engine_request(&head, &body).await?;
        let target = engine_request.target.clone();
        let mut response = self.engine.send(engine_request).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let engine = hyper::upgrade::on(&mut response);
            let tunnel = Some(hijack::PendingTunnel { client, engine });
            let response = hijack::switching_protocols_response(response.headers());
            return Ok((response, Forwarded { is_long_running: true, tunnel }));
        }
        // A success without an upgrade would be copied to the client as if it were a stream.
        if head.route.action == RouteAction::AttachContainer && response.status().is_success() {
            return Err(RequestError::EngineResponse("an attach without an upgrade".to_owned()));
        }
        self.forward_response(&head, &target, response).await
    }

    async fn forward_response(
        &self,
        head: &RequestHead,
        target: &str,
        response: Response<Incoming>,
    ) -> RequestResult<(Response<Body>, Forwarded)> {
        let (parts, body) = response.into_parts();
        let is_long_running =
            head.route.action == RouteAction::WaitContainer && parts.status.is_success();
        let body = if is_long_running {
            // The engine sends the head of a wait at once and the body when the container ends.
            Limited::new(body, self.config.limits.max_response_bytes).boxed_unsync()
        } else {
            let body = self.engine.collect(body).await?;
            self.update_cache(head, target, parts.status, &body);
            full_body(body)
        };
        let response = client_response(parts, body);
        Ok((response, Forwarded { is_long_running, tunnel: None }))
    }

    /// Reads the request's body within its time and size limits.
    async fn read_body(&self, headers: &HeaderMap, body: Incoming) -> RequestResult<Bytes> {
        let limits = &self.config.limits;
        let read =
            timeout(limits.request_timeout, Limited::new(body, limits.max_body_bytes).collect());
        let bytes = match read.await.map_err(|_| RequestError::BodyTimeout)? {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(RequestError::BodyTooLarge(limits.max_body_bytes));
            }
            Err(error) => return malformed(error.to_string()),
        };
        let json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        if !bytes.is_empty() && !json {
            malformed("its body has a content type other than application/json")
        } else {
            Ok(bytes)
        }
    }

    /// The request that the engine receives instead of the client's.
    async fn engine_request(
        &self,
        head: &RequestHead,
        body: &[u8],
    ) -> RequestResult<EngineRequest> {
        let owned = OwnedResources {
            engine: &self.engine,
            policy: &self.config.policy,
            cache: &self.cache,
        };
        let (mut target, mut query, mut new_body) = (head.target.clone(), head.query.clone(), None);
        let action = head.route.action;
        // Old engines took a HostConfig in the body of a start, so a body is accepted only where
        // it is checked.
        if !body.is_empty()
            && !matches!(action, RouteAction::CreateContainer | RouteAction::CreateVolume)
        {
            return malformed("this route takes no body");
        }
        match action {
            RouteAction::Read => {}
            RouteAction::InspectImage => owned.check_visible_image(&target).await?,
            RouteAction::ListContainers => {
                let label = format!("{PROXY_LABEL}={}", self.config.policy.instance);
                query.set("filters", filters::with_label(query.get("filters"), label)?);
            }
            // From here on the request goes to the engine by id: a name could be given to another
            // container between our check and the engine's lookup.
            RouteAction::UseContainer
            | RouteAction::WaitContainer
            | RouteAction::AttachContainer => {
                target = owned.container_id(&target).await?;
            }
            RouteAction::InspectVolume => {
                if !owned.has_volume(&target).await? {
                    return Err(RequestError::NotVisible("volume"));
                }
            }
            RouteAction::CreateContainer => {
                new_body = Some(self.container_body(body, &owned).await?)
            }
            RouteAction::CreateVolume => new_body = Some(self.volume_body(body, &owned).await?),
        }
        let path = format!("{}{}{}", head.version, head.route.path_for(&target), query.encode());
        let method = head.route.method.clone();
        let upgrade = action == RouteAction::AttachContainer;
        Ok(EngineRequest { method, path, target, body: new_body, upgrade })
    }

    async fn container_body(
        &self,
        body: &[u8],
        owned: &OwnedResources<'_>,
    ) -> RequestResult<Bytes> {
        let mut container: ContainerBody = document::parse(body)?;
        policy::check(&container, &self.config.policy)?;
        for volume in container.host_config.iter().flat_map(policy::guest_volumes) {
            if !owned.has_volume(volume).await? {
                return Err(RequestError::NotVisible("volume"));
            }
        }
        owned.check_image(container.image.as_deref().unwrap_or_default()).await?;
        // Last, so that a request that is rejected for another reason does not count.
        if container.host_config.as_ref().is_some_and(policy::is_filler) {
            self.fill_limit.record(&self.config.limits, Instant::now())?;
        }
        self.add_label(&mut container.labels);
        encode(&container)
    }

    async fn volume_body(&self, body: &[u8], owned: &OwnedResources<'_>) -> RequestResult<Bytes> {
        let mut volume: VolumeBody = document::parse(body)?;
        volume::check(&volume)?;
        // The engine answers a second creation with the existing volume, even if it has another owner. That
        // would let a foreign volume pass as ours.
        let exists = owned.has_volume(&volume.name).await.map_err(|error| match error {
            RequestError::NotVisible(_) => RequestError::VolumeTaken(volume.name.clone()),
            other => other,
        })?;
        if !exists {
            owned.check_volume_count().await?;
        }
        self.add_label(&mut volume.labels);
        encode(&volume)
    }

    /// Adds the label by which later requests recognize the object as ours.
    fn add_label(&self, labels: &mut Option<LabelMap>) {
        labels
            .get_or_insert_default()
            .insert(PROXY_LABEL.to_owned(), self.config.policy.instance.clone());
    }

    /// Caches the ids in a response of the engine, and forgets those of removed containers.
    fn update_cache(&self, head: &RequestHead, target: &str, status: StatusCode, body: &[u8]) {
        match head.route.action {
            RouteAction::CreateContainer if status.is_success() => {
                self.cache.add_created_container(head.query.get("name"), body)
            }
            RouteAction::InspectImage if status.is_success() => {
                self.cache.add_inspected_image(body, &self.config.policy)
            }
            RouteAction::UseContainer
                if head.route.method == Method::DELETE || status == StatusCode::NOT_FOUND =>
            {
                self.cache.forget_container(target);
            }
            RouteAction::CreateContainer
            | RouteAction::InspectImage
            | RouteAction::UseContainer
            | RouteAction::Read
            | RouteAction::ListContainers
            | RouteAction::WaitContainer
            | RouteAction::AttachContainer
            | RouteAction::CreateVolume
            | RouteAction::InspectVolume => {}
        }
    }
}

fn encode(body: &impl serde::Serialize) -> RequestResult<Bytes> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| RequestError::Malformed(error.to_string()))
}

/// A body that is already complete.
pub(crate) fn full_body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

fn client_response(parts: response::Parts, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = parts.status;
    *response.headers_mut() = strip_hop_by_hop_headers(parts.headers);
    response
}

/// Removes the headers that concern only the connection between the engine and this proxy.
fn strip_hop_by_hop_headers(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<_> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_owned())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(*name);
    }
    headers
}

const HOP_BY_HOP: &[&str] = &[
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade", "content-length",
];
