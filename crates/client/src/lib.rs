//! The typed HTTP client of the Skillbox API: one method a route, one answer type a resource.
//!
//! It owns how a call is sent and how an answer or a failure is read. It must not know any of our
//! other crates: everything it knows of the server is the wire contract.

#![forbid(unsafe_code)]

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
pub use client::{Client, ClientBuilder, is_loopback_url};
pub use download::Download;
pub use error::ClientError;
pub use events::{ExecutionEvent, ExecutionEvents, LogLine};
pub use executions::{
    ArtifactFile, Execution, ExecutionFilter, ExecutionStatus, ExecutionSummary, ExecutionUsage,
    RunRequest, SkippedOutput,
};
pub use health::{Health, Readiness};
pub use keys::{ApiKey, NewApiKey};
pub use receipts::{Receipt, ReceiptKey, ReceiptKeys};
pub use reply::{Listing, PageSelector, Reply};
pub use skills::{
    PublishedSkill, SkillDetail, SkillFinding, SkillResources, SkillScript, SkillSignature,
    SkillSummary, SkillValidation,
};
pub use tenants::{NewTenant, Tenant, TenantPolicy, TenantUsage};
pub use trust::{NewTrustedKey, NewestVersion, RevokedDigest, TrustedKey};
pub use webhooks::WebhookSecret;
