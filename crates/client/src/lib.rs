//! The typed HTTP client of the Skillbox API: one method a route, one answer type a resource.
//!
//! It owns how a call is sent and how an answer or a failure is read. It must not know any of our
//! other crates: everything it knows of the server is the wire contract.

mod audit;
mod client;
mod download;
mod error;
mod events;
mod executions;
mod health;
mod keys;
mod receipts;
mod reply;
mod skills;
mod tenants;
mod trust;
mod webhooks;

pub use audit::AuditEntry;
pub use client::{Client, ClientBuilder};
pub use download::Download;
pub use error::ClientError;
pub use events::{Event, Events, LogLine};
pub use executions::{
    Execution, ExecutionFilter, ExecutionSummary, File, RunRequest, Skipped, Status, Usage,
};
pub use health::{Health, Readiness};
pub use keys::{Key, NewKey};
pub use receipts::{Receipt, ReceiptKey, ReceiptKeys};
pub use reply::{Listing, Page, Reply};
pub use skills::{
    Finding, Pushed, Resources, Script, Skill, SkillDetail, SkillSignature, Validation,
};
pub use tenants::{NewTenant, Tenant, TenantPolicy, TenantUsage};
pub use trust::{NewTrustedKey, NewestVersion, RevokedDigest, TrustedKey};
pub use webhooks::WebhookSecret;
