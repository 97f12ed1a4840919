//! The HTTP service: configuration, authentication, routes and the serve loop.
//!
//! Knows HTTP but not how a skill runs: that is `runner`. It must not use SQL, start processes or
//! read a skill's files directly. [`router`] lists every route; [`error`] maps failures to HTTP;
//! only [`config`] reads the environment.

#![forbid(unsafe_code)]

mod app;
mod audit;
mod auth;
pub mod config;
mod error;
mod http;
mod metrics;
mod router;
mod routes;
mod secrets;
mod startup;
mod webhooks;

pub use audit::AUDIT_HEAD_KIND;
pub use error::Slug;
pub use routes::openapi::{openapi, openapi_json};
pub use startup::doctor::{Service, docker_config, kubernetes_config, services};
pub use startup::logging::start as start_logging;
pub use startup::migrate::migrate;
pub use startup::serve::{Bound, ServeError, serve, serve_until};
pub use store::{AuditHead, AuditRecord, MigrationReport, TenantId, verify_audit};
