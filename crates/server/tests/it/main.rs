//! The server as its callers meet it: started in this process on a free port, with a data directory
//! of its own and the real sandbox, and spoken to over HTTP.
#![expect(clippy::unwrap_used, reason = "tests")]

mod audit;
mod auth;
mod committed;
mod connections;
mod errors;
mod events;
mod executions;
mod files;
mod key_matrix;
mod keys;
mod lists;
mod matrix;
mod mcp;
mod metrics;
mod production;
mod receipts;
mod reviews;
mod skills;
mod starting;
mod stopping;
mod storage;
mod support;
mod tenants;
mod timeouts;
mod tokens;
mod trust;
mod uploads;
mod webhooks;
