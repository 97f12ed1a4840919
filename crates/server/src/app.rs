//! What every handler can reach.

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

/// The running server's parts. Handlers get it as `State<SharedApp>`.
pub struct App {
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
    /// Knows which key strings are valid.
    pub keyring: Keyring,
    /// Who failed to authenticate how often.
    pub auth_failures: AuthFailures,
    /// Whose word is taken for where a request came from.
    pub trusted_proxies: TrustedProxies,
    /// Checks tokens, when the operator accepts any.
    pub tokens: Option<TokenVerifier>,
    /// Signs and checks download URLs.
    pub signer: DownloadTokenSigner,
    /// Seals page cursors.
    pub cursors: Cursors,
    /// What receipts are checked with, by generation; the last is the one that signs.
    pub receipt_keys: Vec<PublicKey>,
    /// Signs webhooks.
    pub signatures: Arc<WebhookSigner>,
    /// Hosts that webhooks may reach although they are private.
    pub webhook_private_hosts: Vec<String>,
    /// Skills as agents' tools.
    pub mcp: mcp::McpEndpoint,
    /// What `/metrics` tells beyond what the other parts know.
    pub metrics: Metrics,
    /// The last answer of `/ready`.
    pub ready: ReadyCache,
    /// The bounds on requests.
    pub limits: RequestLimits,
    /// Base of download URLs when the operator named one.
    pub public_url: Option<String>,
}

pub type SharedApp = Arc<App>;

/// How much and how long a caller may send.
#[derive(Clone, Copy)]
pub struct RequestLimits {
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
