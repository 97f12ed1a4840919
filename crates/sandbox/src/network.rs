//! The permit to run sandboxes on the host's network.
//!
//! It is a property of a whole launcher, decided when that is started. A shape and a job, which are
//! all that a skill and a request can influence, have no field for it, and a server starts its
//! launchers without it. Only a local user can grant it: an architecture test checks which code
//! creates one.

/// Required to start a launcher on the host's network.
#[derive(Debug, Clone, Copy)]
pub struct HostNetworkPermit(());

impl HostNetworkPermit {
    /// Only for a user who requested it on the command line or in their own configuration.
    pub fn granted_by_user() -> HostNetworkPermit {
        HostNetworkPermit(())
    }
}
