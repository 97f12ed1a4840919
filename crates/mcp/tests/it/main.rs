//! The protocol with skills that are not there: what is asked of them, and when they are told to
//! stop.
#![expect(clippy::unwrap_used, reason = "tests")]

mod http;
mod stdio;
mod support;
