//! `/mcp`: skills as tools, for agents. The crate `mcp` implements the protocol; this file gives it
//! the caller, the body and the limits.

mod provider;
mod run;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use mcp::{McpCaller, McpEndpoint, McpEndpointConfig, ServedSkills, SessionError, SessionLimits};
use serde::Deserialize;
use store::Scope;
use url::Url;

use crate::app::SharedApp;
use crate::auth::Caller;
use crate::config::Config;
use crate::error::{ApiError, Slug};
use crate::http::body::{read, refuse_encoding, reserve, with_body_timeout};
use crate::http::extract::Query;
use crate::http::links::DownloadLinks;
use crate::http::loopback::is_loopback_address;
use provider::ApiSkillProvider;

/// Added to the longest timeout of a run: a run may produce no traffic until its end, and its
/// session must outlive it.
const SESSION_IDLE_MARGIN: Duration = Duration::from_secs(10 * 60);
/// The copies of a message in memory: as sent, as parsed, and as the execution request made from
/// it.
const BODY_COPIES: u64 = 4;
/// Sessions last for minutes, so an immediate retry is pointless.
const RETRY_AFTER_S: u64 = 10;
/// The SDK tells clients to reconnect after three seconds.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
pub(crate) struct McpQuery {
    /// `skills` adds one tool for each skill.
    tools: Option<String>,
}

/// Handles one request of the protocol.
pub(crate) async fn serve(
    caller: Caller,
    links: DownloadLinks,
    State(app): State<SharedApp>,
    Query(query): Query<McpQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    if !caller.identity.has(Scope::Read) && !caller.identity.has(Scope::Execute) {
        return Err(ApiError::forbidden(
            "This key or token has neither of the scopes `read` and `execute`.",
        ));
    }
    let skill_tools = match query.tools.as_deref() {
        None | Some("") => false,
        Some("skills") => true,
        Some(_) => {
            return Err(ApiError::bad_request(
                "tools must be `skills` (one tool for each skill) or absent.",
            ));
        }
    };
    refuse_encoding(request.headers())?;
    let permit = reserve(&app, &request, app.limits.body_bytes, BODY_COPIES).await?;
    let (parts, body) = request.into_parts();
    let body = with_body_timeout(&app, read(body, app.limits.body_bytes)).await??;
    let (tenant, identity) = (caller.tenant.to_string(), identity(&caller));
    let memory = Mutex::new(vec![permit]);
    let skills = Arc::new(ApiSkillProvider { app: app.clone(), caller, links, memory });
    let caller = McpCaller { served: ServedSkills { skills, skill_tools }, tenant, identity };
    let response = app.mcp.handle(caller, http::Request::from_parts(parts, body)).await;
    response.map(|response| response.map(Body::new)).map_err(ApiError::from)
}

/// The owner of a session within its tenant: a key, or the subject of a token.
fn identity(caller: &Caller) -> String {
    match caller.identity.key_id() {
        Some(key) => format!("key {key}"),
        None => format!("subject {}", caller.identity.subject().unwrap_or_default()),
    }
}

/// The endpoint with the limits of this server's configuration.
pub(crate) fn endpoint(config: &Config) -> McpEndpoint {
    let public = config.public_url.as_deref().and_then(|url| Url::parse(url).ok());
    let sessions = config.mcp_sessions;
    McpEndpoint::new(McpEndpointConfig {
        allowed_hosts: allowed_hosts(config.bind, public.as_ref()),
        allowed_origins: allowed_origins(public.as_ref()),
        max_body_bytes: config.max_body_bytes,
        session_idle_timeout: config.run_policy.max_timeout + SESSION_IDLE_MARGIN,
        reconnect_timeout: RECONNECT_TIMEOUT,
        sessions: SessionLimits {
            total: sessions.total,
            per_tenant: sessions.of_tenant,
            per_identity: sessions.of_identity,
        },
    })
}

/// The accepted `Host` values. A server on the loopback interface accepts only its own names, which
/// stops DNS rebinding by a web page. A server on another interface is reached by names that it
/// cannot know, and its requests need a key anyway.
fn allowed_hosts(bind: IpAddr, public: Option<&Url>) -> Vec<String> {
    if !is_loopback_address(bind) {
        return Vec::new();
    }
    let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    own.into_iter()
        .chain([bind.to_string()])
        .chain(public.and_then(Url::host_str).map(str::to_owned))
        .collect()
}

/// The web pages that may call: those of this server, and those that a user serves on the own
/// machine.
fn allowed_origins(public: Option<&Url>) -> Vec<String> {
    let local = ["http://localhost:*", "http://127.0.0.1:*"].map(str::to_owned);
    let public = public.and_then(|url| {
        let (host, port) = (url.host_str()?, url.port_or_known_default()?);
        Some(format!("{}://{host}:{port}", url.scheme()))
    });
    local.into_iter().chain(public).collect()
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> ApiError {
        match error {
            SessionError::NotFound => ApiError::new(
                Slug::NotFound,
                "The MCP session does not exist or has ended. Start a new one with `initialize`.",
            ),
            SessionError::TooManySessions => {
                let message =
                    "Too many MCP sessions are in use. End one with DELETE, or try again later.";
                ApiError::new(Slug::TooBusy, message).with_retry_after(RETRY_AFTER_S)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_server_accepts_only_its_own_names() {
        let public = Url::parse("https://skills.example.com/base").expect("a URL");
        let bind = IpAddr::from([127, 0, 0, 1]);
        assert!(allowed_hosts(bind, Some(&public)).contains(&"skills.example.com".to_owned()));
        assert!(allowed_hosts(bind, None).contains(&"localhost".to_owned()));
        assert!(allowed_hosts(IpAddr::from([0, 0, 0, 0]), Some(&public)).is_empty());
        assert!(
            allowed_origins(Some(&public)).contains(&"https://skills.example.com:443".to_owned())
        );
    }
}
