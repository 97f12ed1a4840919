//! Why an accepted execution ends without having run to its own end. It is recorded like any other
//! result.

use sandbox::Outcome;

use crate::Doubt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    pub outcome: Outcome,
    /// A sentence for the caller, with nothing internal in it.
    pub error: String,
    /// Nothing has run, and the cause may pass.
    pub may_pass: bool,
    /// What the tenant does not trust about the skill, when that is why.
    pub doubt: Option<Doubt>,
}

impl Halt {
    /// By policy, or because the request does not fit the skill. No sandbox was started.
    pub fn refused(error: impl Into<String>) -> Halt {
        Halt { outcome: Outcome::Refused, error: error.into(), may_pass: false, doubt: None }
    }

    /// Through our own fault; the cause is logged where it happened.
    pub fn lost(error: impl Into<String>) -> Halt {
        Halt { outcome: Outcome::Lost, error: error.into(), may_pass: false, doubt: None }
    }

    /// The same before anything ran: another try, later or elsewhere, may do better.
    pub fn unready(error: impl Into<String>) -> Halt {
        Halt { may_pass: true, ..Halt::lost(error) }
    }
}
