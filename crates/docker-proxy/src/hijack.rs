//! The stream of an attached container, carried in both directions until both have ended.

use std::time::Duration;

use http::{HeaderMap, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink, split};
use tokio::time::timeout;

use crate::gate::{Body, whole};

/// A launcher that has heard the end needs a moment to close. Closing on what it still sends would
/// cut off what it has not read yet.
const LINGER: Duration = Duration::from_secs(5);

/// Both ends of a stream that is being agreed on.
pub struct Ends {
    pub client: OnUpgrade,
    pub engine: OnUpgrade,
}

/// The engine's consent, as the launcher gets it.
pub fn switching(headers: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(whole(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    for name in [header::CONNECTION, header::UPGRADE, header::CONTENT_TYPE] {
        if let Some(value) = headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

impl Ends {
    /// Carries bytes until both directions have ended. `half_closed` bounds what the container says
    /// after its input was closed; before that a stream may be silent for as long as it likes.
    pub async fn carry(self, half_closed: Duration) -> Result<(), hyper::Error> {
        let (client, engine) = (self.client.await?, self.engine.await?);
        carry(io(client), io(engine), half_closed).await;
        Ok(())
    }
}

fn io(upgraded: Upgraded) -> TokioIo<Upgraded> {
    TokioIo::new(upgraded)
}

async fn carry(
    client: impl AsyncRead + AsyncWrite,
    engine: impl AsyncRead + AsyncWrite,
    half_closed: Duration,
) {
    let (mut client_says, mut client_hears) = split(client);
    let (mut engine_says, mut engine_hears) = split(engine);
    let ended = {
        let input = async {
            // An error is an end too: the other direction decides what becomes of the stream.
            let _ = copy(&mut client_says, &mut engine_hears).await;
            let _ = engine_hears.shutdown().await;
        };
        let output = async {
            let _ = copy(&mut engine_says, &mut client_hears).await;
            let _ = client_hears.shutdown().await;
        };
        tokio::pin!(input, output);
        tokio::select! {
            () = &mut output => true,
            () = &mut input => timeout(half_closed, output).await.is_ok(),
        }
    };
    if ended {
        let _ = timeout(LINGER, copy(&mut client_says, &mut sink())).await;
    }
}
