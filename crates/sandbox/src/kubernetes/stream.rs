//! The byte stream to a guest in a pod: the attach websocket, which ends when either side of it
//! does.
//!
//! The connection is worked on by a task of the client, which says nothing to a reader when it
//! fails. So the reader also listens to the end of that task, and to the end of the pod: a node
//! that is lost closes no connection.

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

use super::cluster::{Cluster, setup};
use super::standing::Standing;
use crate::launcher::LaunchError;

/// What a pod that is over may still have on its way to us.
const DRAINING: Duration = Duration::from_secs(5);

/// How often a pod is asked for that a list did not have.
const ASKED_AGAIN: Duration = Duration::from_secs(5);

type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Both directions of one connection.
pub struct Attached {
    output: ReadHalf<SimplexStream>,
    input: WriteHalf<SimplexStream>,
    /// The task is done: everything it will ever write is in `output`.
    disconnected: Signal,
    pod_over: Signal,
    /// Set when the other side went first.
    hung_up: Arc<AtomicBool>,
    ended: bool,
    /// Ends the connection when dropped.
    _process: AttachedProcess,
}

impl Attached {
    pub fn new(
        mut process: AttachedProcess,
        (cluster, name): (&Cluster, &str),
        standing: watch::Receiver<Standing>,
        hung_up: Arc<AtomicBool>,
    ) -> Result<Attached, LaunchError> {
        let (Some(output), Some(input), Some(status)) =
            (process.stdout(), process.stdin(), process.take_status())
        else {
            return Err(setup("attach to a pod", "the client has no streams"));
        };
        let disconnected = Box::pin(async move {
            status.await;
        });
        let pod_over = Box::pin(over(cluster.clone(), name.to_owned(), standing));
        Ok(Attached {
            output,
            input,
            disconnected,
            pod_over,
            hung_up,
            ended: false,
            _process: process,
        })
    }
}

/// Ready some time after the pod has ended. One that is missing from a list is asked for.
async fn over(cluster: Cluster, name: String, mut standing: watch::Receiver<Standing>) {
    loop {
        let ended = |now: &Standing| matches!(now, Standing::Over(_) | Standing::Absent);
        let Some(seen) = standing.wait_for(ended).await.ok().map(|seen| seen.clone()) else {
            // Nobody follows the pod any more.
            return std::future::pending().await;
        };
        if seen != Standing::Absent || matches!(cluster.get(&name).await, Ok(None)) {
            return sleep(DRAINING).await;
        }
        sleep(ASKED_AGAIN).await;
    }
}

impl AsyncRead for Attached {
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
                    if !done && this.pod_over.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    this.ended = true;
                    // The last bytes may have come between the two looks.
                    if let Poll::Ready(read) = Pin::new(&mut this.output).poll_read(cx, buffer)
                        && buffer.filled().len() > before
                    {
                        this.ended = false;
                        this.disconnected = Box::pin(std::future::ready(()));
                        return Poll::Ready(read);
                    }
                }
            }
        }
        this.hung_up.store(true, Ordering::SeqCst);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Attached {
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
