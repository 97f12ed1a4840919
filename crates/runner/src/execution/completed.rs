//! An execution that has ended, as its caller receives it.

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

    /// What its documents take in memory until they are sent: each exists twice, as it was read and
    /// as it is sent.
    pub fn buffered_bytes(&self) -> u64 {
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
