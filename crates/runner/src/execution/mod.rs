//! One execution, from a request to its stored result, in six steps with one file each:
//! `accept` → `load` → `plan` → `run` → `collect` → `record`.
//!
//! `orchestrator.rs` calls the steps in this order, for executions that this process accepted and
//! for those that it claimed from the queue. Values only move to the right: no step calls an
//! earlier one. A directory with the name of a step has the parts that only this step needs.

pub mod accept;
mod attempt;
mod calls;
pub mod collect;
pub mod completed;
mod decision;
pub mod detail;
pub mod load;
mod orchestrator;
pub mod plan;
mod read;
pub mod record;
mod run;
pub mod schema_checks;
pub mod stop;
mod timing;

pub use orchestrator::run_claimed;
