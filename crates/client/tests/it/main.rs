//! The client against a server that answers from a script, so that both sides of the wire can be
//! seen.

mod calls;
mod failures;
mod support;
