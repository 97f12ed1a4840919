//! What follows from an attempt at an execution.

use sandbox::Outcome;

use super::collect::Collected;

/// What follows from an attempt.
pub(super) enum Decision {
    /// The result is final.
    Record(Collected),
    /// Another attempt may do better. The store has the last word: if it refuses one, this result
    /// is final.
    Requeue(Collected),
    /// Another worker owns the execution by now. This attempt must leave no trace.
    Abandon,
}

/// A lost run may be tried again; every other outcome is the skill's own or a refusal, and another
/// attempt would end the same way.
pub(super) fn decide(collected: Collected) -> Decision {
    match collected.outcome {
        Outcome::Lost => Decision::Requeue(collected),
        Outcome::Exited
        | Outcome::TimedOut
        | Outcome::OutOfMemory
        | Outcome::TooManyProcesses
        | Outcome::DiskFull
        | Outcome::OutputTooLarge
        | Outcome::Cancelled
        | Outcome::Refused => Decision::Record(collected),
    }
}
