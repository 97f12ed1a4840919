//! One file per resource: its types on the wire, its documentation, its handlers.

pub mod audit;
pub mod blobs;
pub mod docs;
pub mod execution_files;
mod execution_request;
mod execution_view;
pub mod executions;
pub mod health;
pub mod keys;
pub mod skill_files;
mod skill_view;
pub mod skills;
pub mod tenants;
mod upload;
