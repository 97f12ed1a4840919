//! An execution that has ended, as its caller receives it.

use admission::{Permit, WithPermit};
use store::Execution;

use super::detail::Detail;

/// In the process that ran it, `detail` is at hand as a value. Anywhere else the execution is read
/// from the store, and `execution.detail` has the same as JSON text.
#[derive(Debug)]
pub struct CompletedExecution {
    pub execution: Execution,
    pub detail: Option<Detail>,
}

impl CompletedExecution {
    /// The detail, parsed only if the execution was read from the store; the default one while the
    /// execution has none.
    pub fn take_detail(&mut self) -> Result<Detail, serde_json::Error> {
        match (self.detail.take(), &self.execution.detail) {
            (Some(detail), _) => Ok(detail),
            (None, Some(text)) => serde_json::from_str(text),
            (None, None) => Ok(Detail::default()),
        }
    }

    /// Keeps as much of the run's memory permit as the result still needs until it is sent.
    pub fn with_permit(self, memory: Option<Permit>) -> WithPermit<CompletedExecution> {
        // An execution without a run has no permit, and no documents worth counting.
        let Some(mut permit) = memory else { return WithPermit::without_permit(self) };
        permit.shrink_to(self.buffered_bytes());
        WithPermit::new(self, permit)
    }

    /// The memory of its documents until they are sent: each exists twice, as it was read and as it
    /// is sent.
    fn buffered_bytes(&self) -> u64 {
        let Execution { input, output, detail, logs, .. } = &self.execution;
        let documents = [input, output, detail].into_iter().flatten().map(String::len);
        (documents.sum::<usize>() + logs.len()) as u64 * 2
    }
}

impl From<Execution> for CompletedExecution {
    fn from(execution: Execution) -> CompletedExecution {
        CompletedExecution { execution, detail: None }
    }
}
