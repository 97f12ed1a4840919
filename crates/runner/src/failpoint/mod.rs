//! Failpoints: points on the path of an execution at which a process kills or stops itself, for
//! crash tests. Only debug builds have them.

#[cfg(not(debug_assertions))]
mod disabled;
#[cfg(debug_assertions)]
mod enabled;

#[cfg(not(debug_assertions))]
pub use disabled::*;
#[cfg(debug_assertions)]
pub use enabled::*;
