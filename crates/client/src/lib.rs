//! The typed HTTP client of the Skillbox API: one method a route, one answer type a resource.
//!
//! It owns how a call is sent and how an answer or a failure is read. It must not know any of our other
//! crates: everything it knows of the server is the wire contract.

mod client;
mod download;
mod error;
mod executions;
mod health;
mod keys;
mod reply;
mod skills;
mod tenants;

pub use client::{Client, ClientBuilder};
pub use download::Download;
pub use error::ClientError;
pub use executions::{Execution, ExecutionFilter, ExecutionSummary, File, RunRequest, Skipped, Status, Usage};
pub use health::{Health, Readiness};
pub use keys::{Key, NewKey};
pub use reply::{Listing, Page, Reply};
pub use skills::{Finding, Pushed, Resources, Script, Skill, SkillDetail, Validation};
pub use tenants::{NewTenant, Tenant, TenantPolicy};
