//! One execution, from a request to its stored result, in six steps with one file each:
//! `accept` → `load` → `plan` → `run` → `collect` → `record`.
//!
//! `orchestrator.rs` calls the steps in this order, for executions that this process accepted and
//! for those that it claimed from the queue. Values only move to the right: no step calls an
//! earlier one. A directory with the name of a step has the parts that only this step needs.

pub(crate) mod accept;
mod attempt;
mod calls;
pub(crate) mod collect;
pub(crate) mod completed;
mod decision;
pub(crate) mod detail;
pub(crate) mod load;
mod orchestrator;
pub(crate) mod plan;
mod read;
pub(crate) mod record;
mod run;
pub(crate) mod schema_checks;
pub(crate) mod stop;
mod timing;

pub(crate) use orchestrator::run_claimed;
