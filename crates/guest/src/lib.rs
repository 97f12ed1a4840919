//! The interface between the host and the static program `skillbox-guest`.
//!
//! The program has two modes. As *launcher* it is a tiny single-threaded process of the host that
//! clones sandboxes; as *guest* it is PID 1 inside one. This library holds the messages that both
//! sides exchange and their framing. It knows no async runtime and no policy.

pub mod channel;
pub mod frame;
pub mod jail;
pub mod names;
pub mod protocol;
