//! A proxy in front of the Docker engine's socket that allows only what a launcher of sandboxes
//! needs.
//!
//! A client that can create containers is root on the host. This proxy stands between the engine
//! and a Skillbox server that may be compromised. It has a closed table of [routes], parses each
//! create body into types that have no field for anything dangerous, serializes it again, and
//! accesses only containers and volumes with its own label. It depends on no other crate of ours;
//! the required seccomp profile comes from its caller.

#![forbid(unsafe_code)]

mod address;
mod cache;
mod config;
mod container;
mod document;
mod engine;
mod fill_limit;
mod filters;
mod handler;
mod head;
mod hijack;
mod host;
mod labels;
mod names;
mod owned;
mod policy;
mod query;
mod request_error;
mod routes;
mod server;
mod volume;

pub use address::Address;
pub use config::{ContainerPolicy, ProxyConfig, ProxyLimits};
pub use labels::PROXY_LABEL;
pub use request_error::RequestError;
pub use server::{Proxy, ProxyError, ping, serve};
