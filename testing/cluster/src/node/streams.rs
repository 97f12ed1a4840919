//! What a container writes, and whoever listens. What nobody listens to is gone, as with `kubectl
//! attach`.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// One read at most.
const CHUNK: usize = 32 * 1024;

/// How far a listener may be behind before the container waits for it.
const BACKLOG: usize = 16;

/// Standard output or standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdStream {
    Stdout,
    Stderr,
}

type Listener = mpsc::Sender<(StdStream, Bytes)>;

/// Everybody who listens to one container; `None` once it has written its last.
pub struct OutputBroadcast(Mutex<Option<Vec<Listener>>>);

impl OutputBroadcast {
    pub fn new() -> OutputBroadcast {
        OutputBroadcast(Mutex::new(Some(Vec::new())))
    }

    /// From now on; ends with the container.
    pub fn listen(&self) -> mpsc::Receiver<(StdStream, Bytes)> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        if let Some(listeners) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            listeners.push(sender);
        }
        receiver
    }

    /// Hands on what comes from both streams, until both have ended.
    pub async fn pump(&self, stdout: impl AsyncRead + Unpin, stderr: impl AsyncRead + Unpin) {
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
                // Whoever has gone away does not mind.
                let _ = listener.send((output, Bytes::copy_from_slice(&buffer[..count]))).await;
            }
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(listeners) = all.as_mut() {
                listeners.retain(|listener| !listener.is_closed());
            }
        }
    }
}
