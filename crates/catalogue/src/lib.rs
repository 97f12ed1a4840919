//! The skills of a tenant, and the files that its users upload.
//!
//! A package is published after its signature, the scanner's findings and its schemas were checked;
//! its archive is stored as a blob, and its row in the store names the blob by its digest. The
//! catalogue answers whether a skill is trusted now, and loads and compiles it for a run. It knows
//! nothing of executions, queues, sandboxes or HTTP.

#![forbid(unsafe_code)]

mod catalogue;
mod content_type;
mod error;
mod loaded_skill;
mod package_cache;
mod publish;
mod quota;
mod review;
mod schema;
mod skill_files;
mod trust;
mod uploads;
mod verify;

pub use catalogue::{Catalogue, CatalogueConfig};
pub use content_type::content_type_of;
pub use error::CatalogueError;
pub use loaded_skill::{LoadedSkill, unusable_schemas};
pub use package_cache::LoadError;
pub use publish::PublishedSkill;
pub use quota::StorageQuota;
pub use review::reason_not_runnable;
pub use schema::{Schema, SchemaWorkers, WorkersBusy};
pub use trust::TrustProblem;
pub use uploads::{FileMetadata, PendingUpload};
pub use verify::{SignatureStatus, TrustDecision};
