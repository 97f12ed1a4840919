//! The protocol on a fake provider of skills: which calls reach it, and when its runs are
//! cancelled.
#![expect(clippy::unwrap_used, reason = "tests")]

mod http;
mod sessions;
mod stdio;
mod support;
