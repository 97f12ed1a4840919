//! The stand-in as its clients see it: the `kube` crate and `kubectl`, who know the real one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod attach;
mod clients;
mod life;
mod requests;
mod support;
