//! One request: checked, written anew, sent on, and its answer brought back.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::config::Config;
use crate::container::Container;
use crate::engine::{Engine, Order};
use crate::fills::Fills;
use crate::filters;
use crate::head::Asked;
use crate::host::Hosts;
use crate::labels::{LABEL, Labels};
use crate::owned::{Known, Owned};
use crate::policy;
use crate::refusal::{Checked, Refusal, malformed};
use crate::routes::Action;
use crate::volume::{self, Volume};
use crate::{document, hijack};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// What all connections share.
pub struct Gate {
    pub config: Config,
    engine: Engine,
    hosts: Hosts,
    known: Known,
    fills: Fills,
    /// Held while a volume is counted and made.
    making_volume: Mutex<()>,
}

/// What the connection must know of a request that was let through.
#[derive(Default)]
pub struct Passed {
    /// The answer takes as long as a container runs.
    pub lasting: bool,
    /// Both ends of a stream, once the answer has been sent.
    pub stream: Option<hijack::Ends>,
}

impl Gate {
    pub fn new(config: Config) -> Gate {
        let engine = Engine::new(config.engine.clone(), config.limits.clone());
        let hosts = Hosts::new(&config.listen, &config.hosts);
        Gate {
            config,
            engine,
            hosts,
            known: Known::default(),
            fills: Fills::default(),
            making_volume: Mutex::default(),
        }
    }

    /// Answers one request, which came in at this address.
    pub async fn pass(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        local: Option<IpAddr>,
    ) -> Checked<(Response<Body>, Passed)> {
        let client = hyper::upgrade::on(&mut request);
        let (head, body) = request.into_parts();
        self.hosts.check(&head.headers, local)?;
        let asked = Asked::read(&head)?;
        let body = self.body(&head.headers, body).await?;
        let _making = match asked.route.action {
            Action::CreateVolume => Some(self.making_volume.lock().await),
            _ => None,
        };
        let order = self.order(&asked, &body).await?;
        let target = order.target.clone();
        let mut answer = self.engine.send(order).await?;
        if asked.route.action == Action::AttachContainer && answer.status().is_success() {
            return Err(Refusal::EngineOdd("an attach without an upgrade".to_owned()));
        }
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let stream = Some(hijack::Ends { client, engine: hyper::upgrade::on(&mut answer) });
            return Ok((hijack::switching(answer.headers()), Passed { lasting: true, stream }));
        }
        let (head, body) = answer.into_parts();
        let lasting = asked.route.action == Action::WaitContainer && head.status.is_success();
        let body = if lasting {
            Limited::new(body, self.config.limits.answer_bytes).boxed_unsync()
        } else {
            let body = self.engine.collect(body).await?;
            self.learn(&asked, &target, head.status, &body);
            whole(body)
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = end_to_end(head.headers);
        Ok((response, Passed { lasting, stream: None }))
    }

    /// The request's body, in time and within its bound.
    async fn body(&self, headers: &HeaderMap, body: Incoming) -> Checked<Bytes> {
        let limits = &self.config.limits;
        let arrived =
            timeout(limits.request, Limited::new(body, limits.body_bytes).collect()).await;
        let bytes = match arrived.map_err(|_| Refusal::Slow)? {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(Refusal::TooLarge(limits.body_bytes));
            }
            Err(error) => return malformed(error.to_string()),
        };
        let json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        if !bytes.is_empty() && !json {
            malformed("its body is not said to be application/json")
        } else {
            Ok(bytes)
        }
    }

    /// What the engine is asked instead.
    async fn order(&self, asked: &Asked, body: &[u8]) -> Checked<Order> {
        let owned = Owned { engine: &self.engine, policy: &self.config.policy, known: &self.known };
        let (mut name, mut query, mut written) = (asked.name.clone(), asked.query.clone(), None);
        let action = asked.route.action;
        if !body.is_empty() && !matches!(action, Action::CreateContainer | Action::CreateVolume) {
            return malformed("it has a body where there is nothing to say");
        }
        match action {
            Action::Read => {}
            Action::InspectImage => owned.visible_image(&name).await?,
            Action::ListContainers => {
                let label = format!("{LABEL}={}", self.config.policy.instance);
                query.set("filters", filters::with_label(query.get("filters"), label)?);
            }
            Action::UseContainer | Action::WaitContainer | Action::AttachContainer => {
                name = owned.container(&name).await?;
            }
            Action::InspectVolume => {
                if !owned.volume(&name).await? {
                    return Err(Refusal::Hidden("volume"));
                }
            }
            Action::CreateContainer => written = Some(self.container(body, &owned).await?),
            Action::CreateVolume => written = Some(self.volume(body, &owned).await?),
        }
        let path = match asked.route.path.split_once('{') {
            Some((before, rest)) => {
                format!("{before}{name}{}", rest.split_once('}').map_or("", |(_, after)| after))
            }
            None => asked.route.path.to_owned(),
        };
        let path = format!("{}{path}{}", asked.version, query.write());
        let method = asked.route.method.clone();
        Ok(Order {
            method,
            path,
            target: name,
            body: written,
            upgrade: action == Action::AttachContainer,
        })
    }

    async fn container(&self, body: &[u8], owned: &Owned<'_>) -> Checked<Bytes> {
        let mut container: Container = document::read(body)?;
        policy::check(&container, &self.config.policy)?;
        for volume in container.host_config.iter().flat_map(policy::guest_volumes) {
            if !owned.volume(volume).await? {
                return Err(Refusal::Hidden("volume"));
            }
        }
        owned.image(container.image.as_deref().unwrap_or_default()).await?;
        if container.host_config.as_ref().is_some_and(policy::fills) {
            self.fills.start(&self.config.limits, Instant::now())?;
        }
        self.mark(&mut container.labels);
        write(&container)
    }

    async fn volume(&self, body: &[u8], owned: &Owned<'_>) -> Checked<Bytes> {
        let mut volume: Volume = document::read(body)?;
        volume::check(&volume)?;
        // The engine answers a second creation with what is there, whosever it is.
        let exists = owned.volume(&volume.name).await.map_err(|refusal| match refusal {
            Refusal::Hidden(_) => Refusal::Taken(volume.name.clone()),
            other => other,
        })?;
        if !exists {
            owned.room_for_a_volume().await?;
        }
        self.mark(&mut volume.labels);
        write(&volume)
    }

    /// Marks what is about to be made as ours.
    fn mark(&self, labels: &mut Option<Labels>) {
        labels
            .get_or_insert_default()
            .insert(LABEL.to_owned(), self.config.policy.instance.clone());
    }

    /// What an answer says about ids is worth keeping.
    fn learn(&self, asked: &Asked, target: &str, status: StatusCode, body: &[u8]) {
        match asked.route.action {
            Action::CreateContainer if status.is_success() => {
                self.known.created(asked.query.get("name"), body)
            }
            Action::InspectImage if status.is_success() => {
                self.known.resolved(body, &self.config.policy)
            }
            Action::UseContainer
                if asked.route.method == Method::DELETE || status == StatusCode::NOT_FOUND =>
            {
                self.known.forget_container(target);
            }
            _ => {}
        }
    }
}

fn write(body: &impl serde::Serialize) -> Checked<Bytes> {
    serde_json::to_vec(body).map(Bytes::from).map_err(|error| Refusal::Malformed(error.to_string()))
}

/// A body that is all there.
pub fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The headers that are meant for the launcher and not for the connection between the engine and
/// us.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<_> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let named: Vec<_> = named
        .iter()
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
