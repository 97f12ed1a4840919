//! Tests of the stand-in with clients of the real API: the `kube` crate, `kubectl` and Python.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod attach;
mod clients;
mod life;
mod requests;
mod support;
