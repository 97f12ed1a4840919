//! The runner with real parts: SQLite, a directory of blobs, and sandboxes of the machine's own
//! kernel.

mod artifacts;
mod cancelling;
mod crashes;
mod dialects;
mod idempotency;
mod killed;
mod limits;
mod outputs;
#[path = "../../../store/tests/it/postgres.rs"]
mod postgres;
mod publishing;
mod queueing;
mod receipts;
mod refusals;
mod replicas;
mod retention;
mod reviews;
mod running;
mod storage;
mod support;
mod trust;
