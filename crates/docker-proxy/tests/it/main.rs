//! The proxy as its two neighbours see it: a launcher on one side, an engine on the other.

mod bodies;
mod bounds;
mod filtered;
mod hostile;
mod hosts;
mod launcher;
mod life;
mod log;
mod ownership;
mod passes;
mod properties;
mod requests;
mod streams;
mod support;
