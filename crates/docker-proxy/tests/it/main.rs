//! Integration tests of the proxy between a launcher and an engine.

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
