//! The HTTP service: configuration, authentication, routes and the serve loop.
//!
//! Knows HTTP and nothing of how a skill runs: that is `runner`. It must not speak SQL, start processes or touch a
//! skill's files itself. [`router`] lists every route; [`error`] is where failures become HTTP; [`config`] alone reads
//! the environment.

mod app;
mod audit;
mod auth;
mod body;
mod bootstrap;
pub mod config;
mod data_dir;
mod download;
mod error;
mod extract;
mod guard;
mod linger;
mod links;
mod listen;
mod openapi;
mod origin;
mod paging;
mod patience;
mod request_id;
mod router;
mod routes;
mod secrets;
mod serve;
mod telemetry;
mod time;

pub use error::Slug;
pub use openapi::{openapi, openapi_json};
pub use serve::{Bound, ServeError, serve, serve_until};
