//! The permission to let a sandbox see the network of the machine.
//!
//! It is a property of a whole launcher, decided when that is started. A shape and a job, which is
//! all that a skill and a request have a say in, have no field for it; and a server starts its
//! launchers without it. Whoever sits at the machine can give it, and nobody else: a test of the
//! architecture looks who makes one.

/// Held by whoever may start a launcher on the host's network.
#[derive(Debug, Clone, Copy)]
pub struct HostNetworkPermit(());

impl HostNetworkPermit {
    /// To be called only for a person who asked for it on the command line, or in their own
    /// configuration.
    pub fn granted_by_user() -> HostNetworkPermit {
        HostNetworkPermit(())
    }
}
