//! The transport over standard input and output, for the one program that started this process.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{McpConnection, ServedSkills};
use crate::handler::McpHandler;

/// The time that cancelled runs get for their cleanup.
const CALLS_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Serves until standard input ends or `stop` is cancelled, then cancels the runs in progress and
/// waits for them.
pub async fn serve_stdio(served: ServedSkills, stop: CancellationToken) -> io::Result<()> {
    let (input, output) = stdio_pipes();
    serve(served, input, output, stop).await
}

/// Serves on any two streams, as [`serve_stdio`] does.
pub async fn serve(
    served: ServedSkills,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> io::Result<()> {
    let (disconnected, calls) = (stop.child_token(), TaskTracker::new());
    let connection = McpConnection { served, disconnected: disconnected.clone() };
    let handler = McpHandler::new(Some(connection), calls.clone());
    let input = WatchedInput { stream: input, disconnected };
    let quit = match handler.serve_with_ct((input, output), stop).await {
        Ok(service) => service.waiting().await,
        // The client disconnected before `initialize`, which is no error.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(io::Error::other(error)),
    };
    calls.close();
    // A run that does not end within the grace period must not keep this process from exiting.
    let _ = tokio::time::timeout(CALLS_GRACE_PERIOD, calls.wait()).await;
    match quit {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(io::Error::other(error)),
        Ok(_) => Ok(()),
    }
}

/// Standard input that cancels a token when it ends. The SDK itself reacts to the end only after
/// some seconds, during which runs would continue without a client.
struct WatchedInput<R> {
    stream: R,
    disconnected: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for WatchedInput<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        // Nothing read into a buffer with free space is the end of the stream.
        if read.is_err() || (buffer.filled().len() == before && buffer.remaining() > 0) {
            self.disconnected.cancel();
        }
        Poll::Ready(read)
    }
}
