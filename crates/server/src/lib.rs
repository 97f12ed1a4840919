//! The HTTP service: configuration, authentication, routes and the serve loop.
//!
//! Knows HTTP and nothing of how a skill runs: that is `runner`. It must not speak SQL, start processes or touch a
//! skill's files itself. [`router`] lists every route; [`error`] is where failures become HTTP; [`config`] alone reads
//! the environment.

mod agent;
mod app;
mod assemble;
mod audit;
mod auth;
mod body;
mod bootstrap;
mod bucket;
pub mod config;
mod data_dir;
mod doctor;
mod download;
mod error;
mod extract;
mod guard;
mod held;
mod linger;
mod links;
mod listen;
mod metrics;
mod migrate;
mod openapi;
mod origin;
mod paging;
mod patience;
mod peer;
mod ready;
mod receipts;
mod request_id;
mod router;
mod routes;
mod secrets;
mod serve;
mod telemetry;
mod time;
mod waiting;
mod webhooks;

pub use audit::AUDIT_HEAD_KIND;
pub use doctor::{Service, docker_config, kubernetes_config, services};
pub use error::Slug;
pub use migrate::migrate;
pub use openapi::{openapi, openapi_json};
pub use serve::{Bound, ServeError, serve, serve_until};
pub use store::{Audit, AuditHead, Migrated, TenantId, verify_audit};
pub use telemetry::start as start_logging;
