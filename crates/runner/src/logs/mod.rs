//! The log of a run, from its bytes to the events that subscribers in any process read.

pub mod buffer;
pub mod events;
pub mod live;
