//! One connection, of either version of HTTP, and the reasons to end it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::ConnectionLimits;
use super::progress::TrackedBody;
use super::streams::{ConnectionActivity, StreamExecutor};
use super::write_timeout::WriteTimeout;
use crate::http::peer::Peer;

/// Headers of one request over HTTP/1, all together.
const MAX_HEADER_BYTES: usize = 64 << 10;
const MAX_STREAMS: u32 = 64;

/// For a client to notice that its idle connection is to end, and to finish what it has just begun.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(5);

pub struct HttpConnection {
    pub stream: TcpStream,
    pub peer: Peer,
    pub router: Router,
    pub stop: CancellationToken,
    pub limits: ConnectionLimits,
}

impl HttpConnection {
    /// Serves until the client leaves, is idle for too long, abuses the protocol, or the server
    /// stops.
    pub async fn run(self) {
        // Answers are small and wanted at once. A failure here costs only speed.
        let _ = self.stream.set_nodelay(true);
        let activity = ConnectionActivity::new(self.limits.http2.resets);
        let builder = builder(&self.limits, &activity);
        let service = service_fn({
            let (router, activity, peer) = (self.router, Arc::clone(&activity), self.peer);
            move |request: Request<Incoming>| {
                if request.version() < Version::HTTP_2 {
                    activity.leave_to_hyper();
                }
                let router = router.clone();
                async move { Ok::<_, Infallible>(answer(router, peer, request).await) }
            }
        });
        let stream = TokioIo::new(WriteTimeout::new(self.stream, self.limits.write_timeout));
        let mut connection = std::pin::pin!(builder.serve_connection(stream, service));
        // hyper's own timeout for headers starts when the protocol is known, and its pings keep an
        // idle connection of HTTP/2 for as long as the client answers them. So idle time is
        // measured here.
        let mut ending = false;
        loop {
            let limit = if ending {
                SHUTDOWN_GRACE_PERIOD.min(self.limits.header_timeout)
            } else {
                self.limits.header_timeout
            };
            tokio::select! {
                result = &mut connection => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    return;
                }
                () = self.stop.cancelled(), if !ending => {}
                () = activity.idle(limit) => if ending { return },
                () = activity.flooded() => {
                    tracing::debug!("a connection was closed: its client took back too many requests");
                    return;
                }
            }
            ending = true;
            connection.as_mut().graceful_shutdown();
        }
    }
}

async fn answer(
    router: Router,
    peer: Peer,
    mut request: Request<Incoming>,
) -> Response<TrackedBody> {
    request.extensions_mut().insert(peer);
    let response = match router.oneshot(request.map(Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    response.map(TrackedBody::new)
}

fn builder(
    limits: &ConnectionLimits,
    activity: &Arc<ConnectionActivity>,
) -> auto::Builder<StreamExecutor> {
    let executor =
        StreamExecutor { activity: Arc::clone(activity), write_timeout: limits.write_timeout };
    let mut builder = auto::Builder::new(executor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(MAX_HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(limits.http2.max_header_bytes)
        .max_pending_accept_reset_streams(limits.http2.max_pending_resets)
        .max_local_error_reset_streams(limits.http2.max_error_resets)
        .keep_alive_interval(limits.header_timeout)
        .keep_alive_timeout(limits.header_timeout);
    builder
}
