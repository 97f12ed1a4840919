//! One file per resource: its types on the wire, its documentation, its handlers.

pub mod audit;
pub mod blobs;
pub mod discovery;
pub mod docs;
pub mod execution_events;
pub mod execution_files;
pub mod execution_request;
pub mod execution_view;
pub mod executions;
mod file_form;
pub mod file_view;
pub mod files;
pub mod health;
pub mod keys;
pub mod mcp;
pub mod metrics;
pub mod receipts;
pub mod skill_files;
pub mod skill_reviews;
mod skill_view;
pub mod skills;
pub mod tenants;
pub mod trust_digests;
pub mod trust_keys;
pub mod trust_versions;
mod upload;
pub mod webhooks;
