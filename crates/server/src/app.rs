//! The state that all handlers share.

use std::sync::Arc;
use std::time::Duration;

use admission::MemoryBudget;
use blobs::{Blobs, DownloadTokenSigner};
use catalogue::Catalogue;
use runner::Runner;
use skill::signature::PublicKey;
use store::Store;

use crate::auth::{AuthFailures, Keyring, TokenVerifier};
use crate::config::Config;
use crate::http::paging::Cursors;
use crate::http::peer::TrustedProxies;
use crate::metrics::Metrics;
use crate::routes::readiness::ReadyCache;
use crate::webhooks::WebhookSigner;

/// The parts of a running server. Handlers receive it as `State<SharedApp>`.
pub(crate) struct App {
    /// Metadata: tenants, keys, skills, executions, audit.
    pub store: Store,
    /// Skill archives and artifacts.
    pub blobs: Blobs,
    /// Skills and uploaded files.
    pub catalogue: Arc<Catalogue>,
    /// Runs skills.
    pub runner: Arc<Runner>,
    /// The memory that requests and runs may take.
    pub memory: MemoryBudget,
    /// Hashes and authenticates API keys.
    pub keyring: Keyring,
    /// Failed authentications by client address.
    pub auth_failures: AuthFailures,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: TrustedProxies,
    /// Verifies tokens, when the operator has configured them.
    pub tokens: Option<TokenVerifier>,
    /// Signs and checks download URLs.
    pub signer: DownloadTokenSigner,
    /// Signs page cursors.
    pub cursors: Cursors,
    /// The public keys of receipts, by generation; the last belongs to the key that signs.
    pub receipt_keys: Vec<PublicKey>,
    /// Signs webhooks.
    pub signatures: Arc<WebhookSigner>,
    /// Hosts that webhooks may reach although their addresses are private.
    pub webhook_private_hosts: Vec<String>,
    /// The MCP endpoint: skills as tools of agents.
    pub mcp: mcp::McpEndpoint,
    /// The counters of `/metrics` that no other part keeps.
    pub metrics: Metrics,
    /// The last result of `/ready`.
    pub ready: ReadyCache,
    /// Limits on the size and duration of requests.
    pub limits: RequestLimits,
    /// Base of download URLs, when the operator configured one.
    pub public_url: Option<String>,
}

pub(crate) type SharedApp = Arc<App>;

/// Limits on the size and duration of requests.
#[derive(Clone, Copy)]
pub(crate) struct RequestLimits {
    pub body_bytes: usize,
    pub skill_bytes: usize,
    pub file_bytes: u64,
    pub body_timeout: Duration,
    pub url_ttl: Duration,
}

impl From<&Config> for RequestLimits {
    fn from(config: &Config) -> RequestLimits {
        RequestLimits {
            body_bytes: config.max_body_bytes,
            skill_bytes: config.max_skill_bytes,
            file_bytes: config.max_file_bytes,
            body_timeout: config.body_timeout,
            url_ttl: config.url_ttl,
        }
    }
}
