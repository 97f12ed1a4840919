//! Around the execution path: who runs what, and when.
//!
//! The worker claims queued executions. Leases say which process runs an execution; the heartbeat
//! extends them, and the reaper ends or requeues executions whose lease expired. Waiters are
//! callers in this process that wait for an execution, and notifications from the store wake them.

pub(crate) mod leases;
pub(crate) mod notifications;
pub(crate) mod reaper;
pub(crate) mod waiters;
pub(crate) mod worker;
