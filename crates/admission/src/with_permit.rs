//! A value together with the permit for the memory that it takes, so that code that moves the value
//! cannot drop the permit too early.

use std::ops::Deref;

use crate::Permit;

#[derive(Debug)]
pub struct WithPermit<T> {
    value: T,
    permit: Option<Permit>,
}

impl<T> WithPermit<T> {
    pub fn new(value: T, permit: Permit) -> WithPermit<T> {
        WithPermit { value, permit: Some(permit) }
    }

    /// A value that is small, or that a permit of the caller covers.
    pub fn without_permit(value: T) -> WithPermit<T> {
        WithPermit { value, permit: None }
    }

    /// Another form of the value, under the same permit.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> WithPermit<U> {
        WithPermit { value: convert(self.value), permit: self.permit }
    }

    /// The caller keeps the permit for as long as the value.
    pub fn into_parts(self) -> (T, Option<Permit>) {
        (self.value, self.permit)
    }
}

impl<T> Deref for WithPermit<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
