//! The protocol on standard input and output, for one program that started us.

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
use crate::handler::Handler;

/// For runs that were stopped to be cleaned up after.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Serves until standard input ends or `stop` is cancelled. What runs then is stopped, and waited
/// for.
pub async fn serve_stdio(offer: ServedSkills, stop: CancellationToken) -> io::Result<()> {
    let (input, output) = stdio_pipes();
    serve(offer, input, output, stop).await
}

/// The same on any two streams.
pub async fn serve(
    offer: ServedSkills,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> io::Result<()> {
    let (gone, calls) = (stop.child_token(), TaskTracker::new());
    let connection = McpConnection { offer, gone: gone.clone() };
    let handler = Handler::of(Some(connection), calls.clone());
    let input = Input { stream: input, gone };
    let ended = match handler.serve_with_ct((input, output), stop).await {
        Ok(service) => service.waiting().await,
        // It went away before it said what it wants.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(io::Error::other(error)),
    };
    calls.close();
    let _ = tokio::time::timeout(LAST_WORDS, calls.wait()).await;
    match ended {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(io::Error::other(error)),
        Ok(_) => Ok(()),
    }
}

/// Standard input that says when it ends: the SDK would let what runs go on for some seconds, for
/// nobody.
struct Input<R> {
    stream: R,
    gone: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if read.is_err() || (buffer.filled().len() == before && buffer.remaining() > 0) {
            self.gone.cancel();
        }
        Poll::Ready(read)
    }
}
