//! The output of a container and its listeners. Output without a listener is lost, as with `kubectl
//! attach`.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// The largest read.
const CHUNK: usize = 32 * 1024;

/// The number of chunks that a listener may be behind before the container blocks.
const BACKLOG: usize = 16;

/// Standard output or standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdStream {
    Stdout,
    Stderr,
}

type Listener = mpsc::Sender<(StdStream, Bytes)>;

/// The listeners of one container; `None` after the end of its output.
pub(crate) struct OutputBroadcast(Mutex<Option<Vec<Listener>>>);

impl OutputBroadcast {
    pub(crate) fn new() -> OutputBroadcast {
        OutputBroadcast(Mutex::new(Some(Vec::new())))
    }

    /// Receives the output from now on, until the container ends.
    pub(crate) fn listen(&self) -> mpsc::Receiver<(StdStream, Bytes)> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        if let Some(listeners) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            listeners.push(sender);
        }
        receiver
    }

    /// Forwards both streams to the listeners until both have ended.
    pub(crate) async fn pump(
        &self,
        stdout: impl AsyncRead + Unpin,
        stderr: impl AsyncRead + Unpin,
    ) {
        tokio::join!(
            self.pass_on(StdStream::Stdout, stdout),
            self.pass_on(StdStream::Stderr, stderr)
        );
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    async fn pass_on(&self, output: StdStream, mut from: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; CHUNK];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let listeners =
                self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default();
            for listener in listeners {
                // An error means that the listener was dropped.
                let _ = listener.send((output, Bytes::copy_from_slice(&buffer[..count]))).await;
            }
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(listeners) = all.as_mut() {
                listeners.retain(|listener| !listener.is_closed());
            }
        }
    }
}
