//! The runner with real parts: SQLite, a directory of blobs, and sandboxes of the machine's own kernel.

mod artifacts;
mod cancelling;
mod crashes;
mod idempotency;
mod outputs;
mod publishing;
mod queueing;
mod refusals;
mod running;
mod support;
