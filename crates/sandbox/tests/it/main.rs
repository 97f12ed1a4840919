//! Integration tests of the public interface: real launchers, real scripts, and an inventory of the
//! machine around them.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue must fail")]

mod connect_attempts;
mod contract;
mod docker;
mod host_traces;
mod hostile;
mod inventory;
mod kernel_memory;
mod kubernetes;
mod leftovers;
mod ordinary_calls;
mod outcomes;
mod pods;
mod refused_options;
mod shared_inodes;
mod support;
