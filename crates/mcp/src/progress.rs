//! Progress of a run: the lines of its log, on their way to the client while it runs.

use tokio::sync::mpsc;

/// Where a provider reports the log of a run. Progress is not a record: lines are dropped when the
/// client does not read fast enough, and the result has the log anyway.
#[derive(Clone, Debug, Default)]
pub struct RunProgress(Option<mpsc::Sender<String>>);

impl RunProgress {
    /// Messages that wait for a slow client.
    const CHANNEL_CAPACITY: usize = 64;

    pub(crate) fn channel() -> (RunProgress, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(Self::CHANNEL_CAPACITY);
        (RunProgress(Some(sender)), receiver)
    }

    /// Whether the client requested progress notifications.
    pub fn is_requested(&self) -> bool {
        self.0.is_some()
    }

    pub fn report(&self, text: &str) {
        let text = text.trim_end();
        if let Some(sender) = self.0.as_ref().filter(|_| !text.is_empty()) {
            // A full channel must not slow the run down.
            let _ = sender.try_send(text.to_owned());
        }
    }
}
