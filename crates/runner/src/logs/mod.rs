//! The log of a run, from its bytes to the events that subscribers in any process read.

pub(crate) mod buffer;
pub(crate) mod events;
pub(crate) mod live;
