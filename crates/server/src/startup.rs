//! From a configuration to a running server and its orderly shutdown; also the commands that
//! prepare a start (`doctor`, `migrate`).

pub(crate) mod assemble;
pub(crate) mod bootstrap;
pub(crate) mod data_dir;
pub(crate) mod doctor;
pub(crate) mod logging;
pub(crate) mod migrate;
pub(crate) mod migration_wait;
pub(crate) mod serve;
