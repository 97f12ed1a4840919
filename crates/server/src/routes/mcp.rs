//! `/mcp`: skills as tools, for agents. The protocol is the crate `mcp`'s; here it gets its caller,
//! its body and its bounds.

mod agent;

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
use agent::Agent;

/// Beyond the longest run, which may be silent.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// A message as it was sent, as it was read, and as the request to run that it becomes.
const BODY_COPIES: u64 = 4;
/// Sessions last for minutes, so there is no use in trying again at once.
const RETRY_AFTER_S: u64 = 10;
/// Clients are told to come back after three seconds.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
pub struct Wanted {
    /// `skills` adds one tool for each skill.
    tools: Option<String>,
}

/// One request of the protocol.
pub async fn serve(
    caller: Caller,
    links: DownloadLinks,
    State(app): State<SharedApp>,
    Query(wanted): Query<Wanted>,
    request: Request,
) -> Result<Response, ApiError> {
    if !caller.identity.has(Scope::Read) && !caller.identity.has(Scope::Execute) {
        return Err(ApiError::forbidden(
            "This key or token has neither of the scopes `read` and `execute`.",
        ));
    }
    let skill_tools = match wanted.tools.as_deref() {
        None | Some("") => false,
        Some("skills") => true,
        Some(_) => {
            return Err(ApiError::bad_request("tools can be `skills`: one tool for each skill."));
        }
    };
    refuse_encoding(request.headers())?;
    let permit = reserve(&app, &request, app.limits.body_bytes, BODY_COPIES).await?;
    let (parts, body) = request.into_parts();
    let body = with_body_timeout(&app, read(body, app.limits.body_bytes)).await??;
    let (tenant, identity) = (caller.tenant.to_string(), identity(&caller));
    let memory = Mutex::new(vec![permit]);
    let skills = Arc::new(Agent { app: app.clone(), caller, links, memory });
    let caller = McpCaller { offer: ServedSkills { skills, skill_tools }, tenant, identity };
    let answer = app.mcp.answer(caller, http::Request::from_parts(parts, body)).await;
    answer.map(|response| response.map(Body::new)).map_err(ApiError::from)
}

/// Whose a session is: one key's, or one subject's.
fn identity(caller: &Caller) -> String {
    match caller.identity.key_id() {
        Some(key) => format!("key {key}"),
        None => format!("subject {}", caller.identity.subject().unwrap_or_default()),
    }
}

/// The endpoint with this server's bounds.
pub fn endpoint(config: &Config) -> McpEndpoint {
    let public = config.public_url.as_deref().and_then(|url| Url::parse(url).ok());
    let sessions = config.mcp_sessions;
    McpEndpoint::new(McpEndpointConfig {
        allowed_hosts: hosts(config.bind, public.as_ref()),
        allowed_origins: origins(public.as_ref()),
        max_body_bytes: config.max_body_bytes,
        idle: config.max_timeout + IDLE,
        patience: PATIENCE,
        sessions: SessionLimits {
            total: sessions.total,
            of_tenant: sessions.of_tenant,
            of_identity: sessions.of_identity,
        },
    })
}

/// A server on the loopback interface answers to its own names only: a page whose name was made to
/// point there is not one of them. Elsewhere it is reached under names that it cannot know, and
/// nobody gets far without a key.
fn hosts(bind: IpAddr, public: Option<&Url>) -> Vec<String> {
    if !is_loopback_address(bind) {
        return Vec::new();
    }
    let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    own.into_iter()
        .chain([bind.to_string()])
        .chain(public.and_then(Url::host_str).map(str::to_owned))
        .collect()
}

/// Pages that may call: those of this server, and those that somebody serves on their own machine.
fn origins(public: Option<&Url>) -> Vec<String> {
    let here = ["http://localhost:*", "http://127.0.0.1:*"].map(str::to_owned);
    let public = public.and_then(|url| {
        let (host, port) = (url.host_str()?, url.port_or_known_default()?);
        Some(format!("{}://{host}:{port}", url.scheme()))
    });
    here.into_iter().chain(public).collect()
}

impl From<SessionError> for ApiError {
    fn from(refused: SessionError) -> ApiError {
        match refused {
            SessionError::NotFound => ApiError::new(
                Slug::NotFound,
                "The MCP session does not exist or has ended. Start a new one with `initialize`.",
            ),
            SessionError::TooManySessions => {
                let message = "There are too many MCP sessions, and all that could make room are in use. End some, or try again later.";
                ApiError::new(Slug::TooBusy, message).with_retry_after(RETRY_AFTER_S)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_server_answers_to_its_own_names() {
        let public = Url::parse("https://skills.example.com/base").expect("a URL");
        let bind = IpAddr::from([127, 0, 0, 1]);
        assert!(hosts(bind, Some(&public)).contains(&"skills.example.com".to_owned()));
        assert!(hosts(bind, None).contains(&"localhost".to_owned()));
        assert!(hosts(IpAddr::from([0, 0, 0, 0]), Some(&public)).is_empty());
        assert!(origins(Some(&public)).contains(&"https://skills.example.com:443".to_owned()));
    }
}
