//! What every handler can reach.

use std::sync::Arc;
use std::time::Duration;

use blobs::{Blobs, Signer};
use runner::Runner;
use store::Store;

use crate::auth::Keyring;
use crate::config::Config;
use crate::paging::Cursors;

/// The running server's parts. Handlers get it as `State<Shared>`.
pub struct App {
    /// Metadata: tenants, keys, skills, executions, audit.
    pub store: Store,
    /// Skill archives and artifacts.
    pub blobs: Blobs,
    /// Runs and publishes skills.
    pub runner: Arc<Runner>,
    /// Knows which key strings are valid.
    pub keyring: Keyring,
    /// Signs and checks download URLs.
    pub signer: Signer,
    /// Seals page cursors.
    pub cursors: Cursors,
    /// The bounds on requests.
    pub limits: Limits,
    /// Base of download URLs when the operator named one.
    pub public_url: Option<String>,
}

pub type Shared = Arc<App>;

/// How much and how long a caller may send.
#[derive(Clone, Copy)]
pub struct Limits {
    pub body_bytes: usize,
    pub skill_bytes: usize,
    pub body_timeout: Duration,
    pub url_ttl: Duration,
}

impl From<&Config> for Limits {
    fn from(config: &Config) -> Limits {
        Limits {
            body_bytes: config.max_body_bytes,
            skill_bytes: config.max_skill_bytes,
            body_timeout: config.body_timeout,
            url_ttl: config.url_ttl,
        }
    }
}
