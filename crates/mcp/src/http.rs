//! The protocol over HTTP: what stands between an authenticated request and the SDK.
//!
//! Clients of the 2026-07-28 protocol have no sessions. Older ones get one each: it belongs to the
//! caller that made it, ends when it is idle, and there are only so many. A client that goes away
//! stops what it was waiting for.

mod listener;
mod message;
mod sessions;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::http::{Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::Full;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{McpConnection, ServedSkills};
use crate::handler::Handler;
use listener::Listener;
pub use sessions::SessionLimits;
use sessions::{Reservation, Sessions};

const SESSION: &str = "mcp-session-id";

/// Bounds of the endpoint.
pub struct McpEndpointConfig {
    /// Names that a `Host` header may have; with none, any.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call us; others are refused, whatever key they have.
    pub allowed_origins: Vec<String>,
    pub max_body_bytes: usize,
    /// A session in which nothing happens for so long ends. A run without a word is no such thing:
    /// it must be longer.
    pub idle: Duration,
    /// How long a client whose connection broke may take to come back for its answer; without a
    /// session it cannot.
    pub patience: Duration,
    pub sessions: SessionLimits,
}

/// Who sent a request.
#[derive(Clone)]
pub struct McpCaller {
    pub offer: ServedSkills,
    pub tenant: String,
    /// Whose sessions it may use: within its tenant, those of the same key or subject.
    pub identity: String,
}

/// Why a request does not reach the protocol.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The session does not exist, or is another caller's.
    NotFound,
    TooManySessions,
}

/// An answer, perhaps a stream that goes on until a run has ended.
pub type McpResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

type SdkBody = BoxBody<Bytes, Infallible>;

/// The endpoint.
pub struct McpEndpoint {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<Sessions>,
    /// Answers on their way, to the last byte.
    answers: TaskTracker,
    stop: CancellationToken,
    patience: Duration,
}

impl McpEndpoint {
    pub fn new(config: McpEndpointConfig) -> McpEndpoint {
        let stop = CancellationToken::new();
        let service_config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(config.allowed_hosts)
            .with_allowed_origins(config.allowed_origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(config.max_body_bytes)
            .with_cancellation_token(stop.clone());
        let mut live = LocalSessionManager::default();
        live.session_config.keep_alive = Some(config.idle);
        let (live, handler) = (Arc::new(live), Handler::of(None, TaskTracker::new()));
        McpEndpoint {
            service: StreamableHttpService::new(
                move || Ok(handler.clone()),
                Arc::clone(&live),
                service_config,
            ),
            sessions: Sessions::new(live, config.sessions),
            answers: TaskTracker::new(),
            stop,
            patience: config.patience,
        }
    }

    /// Answers a request whose caller is known.
    pub async fn answer(
        &self,
        caller: McpCaller,
        request: Request<Bytes>,
    ) -> Result<McpResponse, SessionError> {
        let (mut parts, body) = request.into_parts();
        let named = parts.headers.get(SESSION).map(|id| id.to_str().unwrap_or_default());
        let session = named
            .map(|id| self.sessions.find(id, &caller).ok_or(SessionError::NotFound))
            .transpose()?;
        let reservation = match session.is_none() && message::begins_session(&body) {
            true => Some(self.sessions.reserve(&caller).await?),
            false => None,
        };
        if let Some(session) = session.as_ref().filter(|_| message::resumes_answer(&parts.headers))
        {
            session.came_back();
        }
        let gone = session.as_ref().map(|session| session.wanted.child_token()).unwrap_or_default();
        parts.extensions.insert(McpConnection { offer: caller.offer.clone(), gone: gone.clone() });
        let ends = session.clone().filter(|_| parts.method == Method::DELETE);
        let expects = (parts.method == Method::POST).then(|| self.answers.token());
        let listener = Listener::new(gone, session, self.patience, expects);
        let (sent, typed) = (body.clone(), message::is_json(&parts.headers));
        let request = Request::from_parts(parts, Full::new(body));
        let response = match reservation {
            Some(reservation) => self.begin(request, reservation).await,
            None => self.service.handle(request).await,
        };
        if let Some(session) = ends.filter(|_| response.status().is_success()) {
            session.wanted.cancel();
        }
        if typed && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return Ok(message::unreadable(&sent));
        }
        Ok(response.map(|body| listener.attend(body)))
    }

    /// Makes a session and gives it its slot, in a task of its own: a client that goes away
    /// meanwhile leaves a session behind, and that must be counted too.
    async fn begin(
        &self,
        request: Request<Full<Bytes>>,
        reservation: Reservation,
    ) -> Response<SdkBody> {
        let service = self.service.clone();
        let begun = tokio::spawn(async move {
            let response = service.handle(request).await;
            if let Some(id) = response.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
                reservation.keep(id);
            }
            response
        });
        match begun.await {
            Ok(response) => response,
            // Passed on to whoever turns panics into answers.
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }

    /// How many sessions the SDK keeps, known to us or not.
    pub async fn live_sessions(&self) -> usize {
        self.sessions.live().await
    }

    /// Lets answers that somebody waits for be given, within a limit, and ends every session and
    /// stream.
    pub async fn close(&self, limit: Duration) {
        self.answers.close();
        let _ = tokio::time::timeout(limit, self.answers.wait()).await;
        self.stop.cancel();
    }
}
