//! What the host and the static program `skillbox-guest` agree on.
//!
//! The program has two modes. As *launcher* it is a tiny single-threaded process of the host that
//! clones sandboxes; as *guest* it is PID 1 inside one. This library holds the values both sides
//! exchange and the framing they travel in. It knows no async runtime and no policy.

pub mod channel;
pub mod frame;
pub mod jail;
pub mod names;
pub mod protocol;
