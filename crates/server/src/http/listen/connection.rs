//! One connection over HTTP/1 or HTTP/2, and the reasons to close it.

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

/// For a client to notice that its idle connection is shut down, and for a request that it has just
/// begun.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(5);

pub(super) struct HttpConnection {
    pub stream: TcpStream,
    pub peer: Peer,
    pub router: Router,
    pub stop: CancellationToken,
    pub limits: ConnectionLimits,
}

impl HttpConnection {
    /// Serves until the client disconnects, is idle for too long, abuses the protocol, or the server
    /// shuts down.
    pub(super) async fn run(self) {
        // Responses are small, so they are sent without delay. A failure here costs only latency.
        let _ = self.stream.set_nodelay(true);
        let activity = ConnectionActivity::new(self.limits.http2.resets);
        let builder = builder(&self.limits, &activity);
        let service = service_fn({
            let (router, activity, peer) = (self.router, Arc::clone(&activity), self.peer);
            move |request: Request<Incoming>| {
                if request.version() < Version::HTTP_2 {
                    activity.use_hyper_idle_timeout();
                }
                let router = router.clone();
                async move { Ok::<_, Infallible>(respond(router, peer, request).await) }
            }
        });
        let stream = TokioIo::new(WriteTimeout::new(self.stream, self.limits.write_timeout));
        let mut connection = std::pin::pin!(builder.serve_connection(stream, service));
        // Idle time is measured here and not left to hyper: its header timeout starts only when the
        // protocol is known, and its pings keep an idle HTTP/2 connection open for as long as the
        // client answers them.
        let mut shutting_down = false;
        loop {
            let limit = if shutting_down {
                SHUTDOWN_GRACE_PERIOD.min(self.limits.header_timeout)
            } else {
                self.limits.header_timeout
            };
            tokio::select! {
                result = &mut connection => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "a connection failed");
                    }
                    return;
                }
                () = self.stop.cancelled(), if !shutting_down => {}
                () = activity.wait_for_idle(limit) => if shutting_down { return },
                () = activity.wait_for_reset_flood() => {
                    tracing::debug!("a connection was closed: its client reset too many requests");
                    return;
                }
            }
            shutting_down = true;
            connection.as_mut().graceful_shutdown();
        }
    }
}

async fn respond(
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
