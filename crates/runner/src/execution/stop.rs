//! Why an accepted execution ends without a run of its own. It is recorded like any other result.

use sandbox::Outcome;

use super::detail::TrustProblemDetail;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stop {
    pub outcome: Outcome,
    /// A sentence for the caller, with nothing internal in it.
    pub error: String,
    /// Nothing has run, and the cause may be temporary.
    pub retryable: bool,
    /// What the tenant does not trust about the skill, if that is the reason.
    pub trust_problem: Option<TrustProblemDetail>,
}

impl Stop {
    /// By policy, or because the request does not fit the skill. No sandbox was started.
    pub(crate) fn refused(error: impl Into<String>) -> Stop {
        Stop {
            outcome: Outcome::Refused,
            error: error.into(),
            retryable: false,
            trust_problem: None,
        }
    }

    /// Skillbox failed; the cause is logged where it happened.
    pub(crate) fn lost(error: impl Into<String>) -> Stop {
        Stop { outcome: Outcome::Lost, error: error.into(), retryable: false, trust_problem: None }
    }

    /// Skillbox failed before anything ran: another attempt, later or on another server, may
    /// succeed.
    pub(crate) fn unready(error: impl Into<String>) -> Stop {
        Stop { retryable: true, ..Stop::lost(error) }
    }
}
