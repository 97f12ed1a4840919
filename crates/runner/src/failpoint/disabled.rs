//! Release builds have no failpoints: this compiles to nothing.

#[derive(Clone, Copy)]
pub enum Point {
    Accept,
    Claim,
    Launch,
    Run,
    Upload,
    Collect,
    Record,
    Remove,
}

#[inline(always)]
pub fn reach(_: Point) {}
