//! The transport over HTTP: from an authenticated request to the SDK and back.
//!
//! Clients of the 2026-07-28 protocol have no sessions. Older clients get one each: it belongs to
//! the caller that created it, ends when it is idle, and their number is limited. A client that
//! disconnects cancels the runs it was waiting for.

mod message;
mod response_guard;
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
use crate::handler::McpHandler;
use response_guard::ResponseGuard;
pub use sessions::SessionLimits;
use sessions::{McpSession, SessionReservation, SessionTable};

const SESSION_HEADER: &str = "mcp-session-id";

/// Limits of the endpoint.
pub struct McpEndpointConfig {
    /// Accepted values of the `Host` header; empty accepts any.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call the endpoint. Others are rejected, whatever key they have.
    pub allowed_origins: Vec<String>,
    pub max_body_bytes: usize,
    /// A session without traffic for this long ends. It must exceed the longest run, which may
    /// produce no traffic until its end.
    pub session_idle_timeout: Duration,
    /// How long a client of a session may take to reconnect before its runs are cancelled. Without
    /// a session, a disconnect cancels at once.
    pub reconnect_timeout: Duration,
    pub sessions: SessionLimits,
}

/// The sender of a request.
#[derive(Clone)]
pub struct McpCaller {
    pub served: ServedSkills,
    pub tenant: String,
    /// The key or subject. Within its tenant, a caller may use only the sessions of its identity.
    pub identity: String,
}

/// Why a request did not reach the protocol.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The session does not exist, or belongs to another caller.
    NotFound,
    TooManySessions,
}

/// A response, possibly a stream that lasts until a run has ended.
pub type McpResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

type SdkResponse = Response<BoxBody<Bytes, Infallible>>;

/// The endpoint.
pub struct McpEndpoint {
    service: StreamableHttpService<McpHandler, LocalSessionManager>,
    sessions: Arc<SessionTable>,
    /// Responses that are not yet sent to their last byte.
    responses: TaskTracker,
    stop: CancellationToken,
    reconnect_timeout: Duration,
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
        live.session_config.keep_alive = Some(config.session_idle_timeout);
        let (live, handler) = (Arc::new(live), McpHandler::new(None, TaskTracker::new()));
        McpEndpoint {
            service: StreamableHttpService::new(
                move || Ok(handler.clone()),
                Arc::clone(&live),
                service_config,
            ),
            sessions: SessionTable::new(live, config.sessions),
            responses: TaskTracker::new(),
            stop,
            reconnect_timeout: config.reconnect_timeout,
        }
    }

    /// Handles a request of an authenticated caller.
    pub async fn handle(
        &self,
        caller: McpCaller,
        request: Request<Bytes>,
    ) -> Result<McpResponse, SessionError> {
        let (mut parts, body) = request.into_parts();
        let session = self.find_session(&caller, &parts)?;
        let reservation = match session.is_none() && message::creates_session(&body) {
            true => Some(self.sessions.reserve(&caller).await?),
            false => None,
        };
        if let Some(session) =
            session.as_ref().filter(|_| message::resumes_response(&parts.headers))
        {
            session.record_reconnect();
        }
        // The end of a session also disconnects its requests.
        let disconnected =
            session.as_ref().map(|session| session.ended.child_token()).unwrap_or_default();
        let connection =
            McpConnection { served: caller.served.clone(), disconnected: disconnected.clone() };
        parts.extensions.insert(connection);
        let deleted_session = session.clone().filter(|_| parts.method == Method::DELETE);
        let in_progress = (parts.method == Method::POST).then(|| self.responses.token());
        // Made before the SDK handles the request: a client may disconnect at any await from here.
        let guard = ResponseGuard::new(disconnected, session, self.reconnect_timeout, in_progress);
        let (sent_body, is_json) = (body.clone(), message::is_json(&parts.headers));
        let request = Request::from_parts(parts, Full::new(body));
        let response = match reservation {
            Some(reservation) => self.create_session(request, reservation).await,
            None => self.service.handle(request).await,
        };
        if let Some(session) = deleted_session.filter(|_| response.status().is_success()) {
            session.ended.cancel();
        }
        if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return Ok(message::invalid_message(&sent_body));
        }
        Ok(response.map(|body| guard.attach_to(body)))
    }

    /// The session that the request names, if any.
    fn find_session(
        &self,
        caller: &McpCaller,
        parts: &::http::request::Parts,
    ) -> Result<Option<Arc<McpSession>>, SessionError> {
        let Some(id) = parts.headers.get(SESSION_HEADER) else { return Ok(None) };
        let session = self.sessions.find(id.to_str().unwrap_or_default(), caller);
        session.map(Some).ok_or(SessionError::NotFound)
    }

    /// Creates a session and commits its reservation, in a separate task: when the client
    /// disconnects meanwhile, the SDK's session exists all the same and must be counted.
    async fn create_session(
        &self,
        request: Request<Full<Bytes>>,
        reservation: SessionReservation,
    ) -> SdkResponse {
        let service = self.service.clone();
        let creation = tokio::spawn(async move {
            let response = service.handle(request).await;
            let id = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
            if let Some(id) = id {
                reservation.commit(id);
            }
            response
        });
        match creation.await {
            Ok(response) => response,
            // The server's middleware turns a panic into a response, as on every route.
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }

    /// The number of sessions in the SDK, including any that the table does not know.
    pub async fn count_live_sessions(&self) -> usize {
        self.sessions.count_live().await
    }

    /// Waits up to the grace period for responses in progress, then ends every session and stream.
    pub async fn shut_down(&self, grace_period: Duration) {
        self.responses.close();
        let _ = tokio::time::timeout(grace_period, self.responses.wait()).await;
        self.stop.cancel();
    }
}
