//! A value together with the permit for the memory that it takes, so that whoever has the one
//! cannot lose the other.

use std::ops::Deref;

use crate::budget::Permit;

#[derive(Debug)]
pub struct Held<T> {
    value: T,
    permit: Option<Permit>,
}

impl<T> Held<T> {
    pub fn new(value: T, permit: Permit) -> Held<T> {
        Held { value, permit: Some(permit) }
    }

    /// A value that is small, or that a permit of the caller covers.
    pub fn covered(value: T) -> Held<T> {
        Held { value, permit: None }
    }

    /// The permit has to be kept for as long as the value is.
    pub fn into_parts(self) -> (T, Option<Permit>) {
        (self.value, self.permit)
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
