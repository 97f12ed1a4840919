//! The byte stream to a guest in a pod: the attach websocket, which ends when either side closes
//! it.
//!
//! A task of the client library drives the connection, and does not notify a reader when it fails. So
//! the reader also waits for the end of that task, and for the end of the pod: a lost node closes
//! no connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use kube::api::AttachedProcess;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, SimplexStream, WriteHalf};
use tokio::sync::watch;
use tokio::time::sleep;

use super::client::{ClusterClient, setup_error};
use super::pod_state::PodState;
use crate::launcher::LaunchError;

/// How long output of an ended pod may still be on its way to us.
const DRAIN_DELAY: Duration = Duration::from_secs(5);

/// How often a pod is requested that was missing from a list.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Both directions of one attach connection.
pub(super) struct PodStream {
    output: ReadHalf<SimplexStream>,
    input: WriteHalf<SimplexStream>,
    /// The library's task has ended: all output it will ever deliver is in `output`.
    disconnected: Signal,
    pod_ended: Signal,
    /// Set when the guest's side of the stream ended first.
    guest_disconnected: Arc<AtomicBool>,
    ended: bool,
    /// Dropping it closes the connection.
    _process: AttachedProcess,
}

impl PodStream {
    pub(super) fn new(
        mut process: AttachedProcess,
        (client, name): (&ClusterClient, &str),
        state: watch::Receiver<PodState>,
        guest_disconnected: Arc<AtomicBool>,
    ) -> Result<PodStream, LaunchError> {
        let (Some(output), Some(input), Some(status)) =
            (process.stdout(), process.stdin(), process.take_status())
        else {
            return Err(setup_error("attach to a pod", "the client has no streams"));
        };
        let disconnected = Box::pin(async move {
            status.await;
        });
        let pod_ended = Box::pin(wait_for_pod_end(client.clone(), name.to_owned(), state));
        Ok(PodStream {
            output,
            input,
            disconnected,
            pod_ended,
            guest_disconnected,
            ended: false,
            _process: process,
        })
    }
}

/// Ready some time after the pod has ended. A pod that is missing from a list is requested by name
/// first, because a list can be older than the pod.
async fn wait_for_pod_end(
    client: ClusterClient,
    name: String,
    mut state: watch::Receiver<PodState>,
) {
    loop {
        let may_have_ended =
            |state: &PodState| matches!(state, PodState::Ended(_) | PodState::Missing);
        let Some(state) = state.wait_for(may_have_ended).await.ok().map(|state| state.clone())
        else {
            // The subscription was dropped, so the pod is being removed by its owner.
            return std::future::pending().await;
        };
        if state != PodState::Missing || matches!(client.get(&name).await, Ok(None)) {
            return sleep(DRAIN_DELAY).await;
        }
        sleep(POLL_INTERVAL).await;
    }
}

impl AsyncRead for PodStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        if !this.ended {
            match Pin::new(&mut this.output).poll_read(cx, buffer) {
                Poll::Ready(Ok(())) if buffer.filled().len() > before => {
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(_) => this.ended = true,
                Poll::Pending => {
                    let done = this.disconnected.as_mut().poll(cx).is_ready();
                    if !done && this.pod_ended.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    this.ended = true;
                    // The task may have written its last bytes after the first poll of `output`
                    // and before it ended, so `output` is read once more.
                    if let Poll::Ready(read) = Pin::new(&mut this.output).poll_read(cx, buffer)
                        && buffer.filled().len() > before
                    {
                        this.ended = false;
                        // A finished future must not be polled again.
                        this.disconnected = Box::pin(std::future::ready(()));
                        return Poll::Ready(read);
                    }
                }
            }
        }
        this.guest_disconnected.store(true, Ordering::SeqCst);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PodStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(cx)
    }
}
