//! A proxy in front of the Docker engine's socket that lets through what a launcher of sandboxes
//! needs, and nothing else.
//!
//! Whoever can create containers is root on the host. This proxy stands between the engine and a
//! Skillbox server that may have been taken over: it knows a closed table of [routes], reads each
//! create body into types that have no field for anything dangerous, writes it anew, and reaches
//! only containers and volumes that carry its own label. It knows no other crate of ours; the
//! seccomp profile to insist on comes from its caller.

#![forbid(unsafe_code)]

mod address;
mod config;
mod container;
mod document;
mod engine;
mod fills;
mod filters;
mod gate;
mod head;
mod hijack;
mod host;
mod labels;
mod names;
mod owned;
mod policy;
mod query;
mod refusal;
mod routes;
mod server;
mod volume;

pub use address::Address;
pub use config::{Config, Limits, Policy};
pub use labels::LABEL;
pub use refusal::Refusal;
pub use server::{Proxy, ProxyError, ping, serve};
