//! From a configuration to a running server and its orderly shutdown; also the commands that
//! prepare a start (`doctor`, `migrate`).

pub mod assemble;
pub mod bootstrap;
pub mod data_dir;
pub mod doctor;
pub mod logging;
pub mod migrate;
pub mod migration_wait;
pub mod serve;
