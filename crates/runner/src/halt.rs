//! Why an accepted execution ends without having run to its own end. It is recorded like any other result.

use sandbox::Outcome;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    pub outcome: Outcome,
    /// A sentence for the caller, with nothing internal in it.
    pub error: String,
}

impl Halt {
    /// By policy, or because the request does not fit the skill. No sandbox was started.
    pub fn refused(error: impl Into<String>) -> Halt {
        Halt { outcome: Outcome::Refused, error: error.into() }
    }

    /// Through our own fault; the cause is logged where it happened.
    pub fn lost(error: impl Into<String>) -> Halt {
        Halt { outcome: Outcome::Lost, error: error.into() }
    }
}
