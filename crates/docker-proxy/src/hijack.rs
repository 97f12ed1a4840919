//! The stream of an attached container, copied in both directions until both have ended.

use std::time::Duration;

use http::{HeaderMap, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink, split};
use tokio::time::timeout;

use crate::handler::{Body, full_body};

/// How long a client may take to close after the container's output has ended. Closing a socket
/// that still has unread input resets it, and the client would lose output it has not read yet.
const CLOSE_DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Both sides of a stream whose upgrade is under way.
pub(crate) struct PendingTunnel {
    pub client: OnUpgrade,
    pub engine: OnUpgrade,
}

/// The engine's `101 Switching Protocols`, as the client receives it.
pub(crate) fn switching_protocols_response(headers: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(full_body(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    for name in [header::CONNECTION, header::UPGRADE, header::CONTENT_TYPE] {
        if let Some(value) = headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

impl PendingTunnel {
    /// Copies bytes until both directions have ended. `half_closed_timeout` limits the output of
    /// the container after its input was closed; before that a stream may be silent for any time.
    pub(crate) async fn run(self, half_closed_timeout: Duration) -> Result<(), hyper::Error> {
        let (client, engine) = (self.client.await?, self.engine.await?);
        copy_until_closed(into_io(client), into_io(engine), half_closed_timeout).await;
        Ok(())
    }
}

fn into_io(upgraded: Upgraded) -> TokioIo<Upgraded> {
    TokioIo::new(upgraded)
}

async fn copy_until_closed(
    client: impl AsyncRead + AsyncWrite,
    engine: impl AsyncRead + AsyncWrite,
    half_closed_timeout: Duration,
) {
    let (mut client_reader, mut client_writer) = split(client);
    let (mut engine_reader, mut engine_writer) = split(engine);
    let output_ended = {
        let input = async {
            // An error ends only this direction; the other one decides when the stream ends.
            let _ = copy(&mut client_reader, &mut engine_writer).await;
            let _ = engine_writer.shutdown().await;
        };
        let output = async {
            let _ = copy(&mut engine_reader, &mut client_writer).await;
            let _ = client_writer.shutdown().await;
        };
        tokio::pin!(input, output);
        tokio::select! {
            // The end of the output is the end of the container: pending input has no reader.
            () = &mut output => true,
            // The end of the input is a half-close: the container still writes its last output.
            () = &mut input => timeout(half_closed_timeout, output).await.is_ok(),
        }
    };
    if output_ended {
        let _ = timeout(CLOSE_DRAIN_TIMEOUT, copy(&mut client_reader, &mut sink())).await;
    }
}
