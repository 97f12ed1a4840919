//! The proxy as a server: accepts connections, enforces their limits, logs rejected requests, and
//! shuts down gracefully.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::address::{AcceptedConnection, Address, BoxedStream, ProxyListener};
use crate::config::{ProxyConfig, ProxyLimits};
use crate::engine::{EngineClient, EngineRequest};
use crate::handler::{Body, RequestHandler, full_body};
use crate::hijack::PendingTunnel;
use crate::request_error::RequestError;

/// Pause after a failed `accept`.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Longest request target in a log line, in characters.
const MAX_LOGGED_TARGET: usize = 300;

/// A proxy that is bound to its address and does not accept requests yet.
pub struct Proxy {
    listener: ProxyListener,
    handler: Arc<RequestHandler>,
}

/// Why a proxy cannot run.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}: {source}")]
pub struct ProxyError {
    address: Address,
    source: io::Error,
}

/// Serves requests until `shutdown`, then drains.
pub async fn serve(
    config: ProxyConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ProxyError> {
    Proxy::bind(config).await?.serve(shutdown).await;
    Ok(())
}

/// Checks that the proxy at this address responds, and the engine behind it.
pub async fn ping(address: &Address) -> Result<(), RequestError> {
    let response = EngineClient::new(address.clone(), ProxyLimits::default())
        .send(EngineRequest::get("/_ping".to_owned()))
        .await?;
    match response.status() {
        StatusCode::OK => Ok(()),
        other => Err(RequestError::EngineResponse(format!("its status is {other}"))),
    }
}

impl Proxy {
    pub async fn bind(config: ProxyConfig) -> Result<Proxy, ProxyError> {
        let address = config.listen.clone();
        let listener = address.listen().await.map_err(|source| ProxyError { address, source })?;
        Ok(Proxy { listener, handler: Arc::new(RequestHandler::new(config)) })
    }

    /// The bound address, with the port that the kernel chose for port 0.
    pub fn address(&self) -> io::Result<Address> {
        self.listener.address()
    }

    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Proxy { listener, handler } = self;
        let drain_timeout = handler.config.limits.drain_timeout;
        let connections = ConnectionAcceptor::new(handler);
        tokio::select! {
            () = shutdown => {}
            () = connections.accept(&listener) => {}
        }
        // New connections must fail at once instead of waiting in the backlog during the drain.
        drop(listener);
        connections.shut_down(drain_timeout).await;
    }
}

struct ConnectionAcceptor {
    handler: Arc<RequestHandler>,
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Cancelled first: connections accept no new requests.
    stop: CancellationToken,
    /// Cancelled after the drain: connections and streams are closed.
    abort: CancellationToken,
}

impl ConnectionAcceptor {
    fn new(handler: Arc<RequestHandler>) -> ConnectionAcceptor {
        let permits = Arc::new(Semaphore::new(handler.config.limits.max_connections));
        let (stop, abort) = (CancellationToken::new(), CancellationToken::new());
        ConnectionAcceptor { handler, permits, tasks: TaskTracker::new(), stop, abort }
    }

    /// Accepts connections while there are permits. Further clients wait in the kernel's backlog.
    async fn accept(&self, listener: &ProxyListener) {
        loop {
            // The permit comes before the accept, so that clients above the limit cost no
            // descriptor.
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
            match listener.accept().await {
                Ok(AcceptedConnection { stream, peer, local }) => {
                    let connection = ClientConnection {
                        handler: Arc::clone(&self.handler),
                        peer,
                        local,
                        permit: Arc::new(permit),
                        tasks: self.tasks.clone(),
                        abort: self.abort.clone(),
                        is_long_running: AtomicBool::new(false),
                    };
                    self.tasks.spawn(Arc::new(connection).serve(stream, self.stop.clone()));
                }
                Err(error) => {
                    // Most likely the process has no free descriptor. A retry succeeds only after
                    // another connection has closed, so an immediate one would spin.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    async fn shut_down(self, drain_timeout: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(drain_timeout, self.tasks.wait()).await.is_err() {
            tracing::warn!(open = self.tasks.len(), "closing the streams that are still open");
        }
        self.abort.cancel();
        self.tasks.wait().await;
    }
}

/// One client connection, which carries one request.
struct ClientConnection {
    handler: Arc<RequestHandler>,
    peer: String,
    local: Option<IpAddr>,
    permit: Arc<OwnedSemaphorePermit>,
    tasks: TaskTracker,
    abort: CancellationToken,
    is_long_running: AtomicBool,
}

impl ClientConnection {
    async fn serve(self: Arc<Self>, stream: BoxedStream, stop: CancellationToken) {
        let limits = &self.handler.config.limits;
        let this = &self;
        let service = service_fn(move |request| {
            let this = Arc::clone(this);
            async move { Ok::<_, std::convert::Infallible>(this.respond(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.request_timeout)
            // One request per connection: bytes after the first request cannot be mistaken for
            // another one (request smuggling).
            .keep_alive(false)
            .max_headers(64)
            .max_buf_size(16 << 10)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::pin!(connection);
        let mut stopping = false;
        let result = loop {
            tokio::select! {
                result = &mut connection => break result,
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = self.abort.cancelled() => return,
                () = self.wait_for_exchange_timeout() => return,
            }
        };
        match result {
            Err(error) if error.is_parse() || error.is_timeout() => {
                tracing::warn!(peer = %self.peer, reason = %error, "refused an invalid request");
            }
            // The client disconnected, which is not an error of either side.
            _ => {}
        }
    }

    /// Ends when the connection has used up its time. A connection that waits for a container has
    /// no limit of its own: the launcher's deadline ends it.
    async fn wait_for_exchange_timeout(&self) {
        sleep(self.handler.config.limits.exchange_timeout).await;
        if self.is_long_running.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method().clone(), target_for_log(request.uri()));
        match self.handler.handle(request, self.local).await {
            Ok((response, forwarded)) => {
                tracing::debug!(%method, path, status = response.status().as_u16(), peer = self.peer, "forwarded");
                self.is_long_running.store(forwarded.is_long_running, Ordering::Relaxed);
                if let Some(tunnel) = forwarded.tunnel {
                    self.spawn_tunnel(tunnel);
                }
                response
            }
            Err(error) => {
                tracing::warn!(%method, path, reason = %error, peer = self.peer, "refused");
                error_response(&error)
            }
        }
    }

    /// The stream outlives the HTTP exchange that opened it. It keeps the connection's permit, so
    /// that streams count against the connection limit.
    fn spawn_tunnel(&self, tunnel: PendingTunnel) {
        let (permit, abort) = (Arc::clone(&self.permit), self.abort.clone());
        let half_closed_timeout = self.handler.config.limits.half_closed_timeout;
        self.tasks.spawn(async move {
            tokio::select! {
                result = tunnel.run(half_closed_timeout) => if let Err(error) = result {
                    tracing::debug!(%error, "an upgraded stream was never opened");
                },
                () = abort.cancelled() => {}
            }
            drop(permit);
        });
    }
}

/// The request target, escaped and shortened: a client must not be able to write control
/// characters into a terminal that shows the log.
fn target_for_log(uri: &http::Uri) -> String {
    uri.to_string().escape_debug().take(MAX_LOGGED_TARGET).collect()
}

/// An error in the format of the engine's own errors.
fn error_response(error: &RequestError) -> Response<Body> {
    let body =
        serde_json::json!({"message": format!("skillbox docker-proxy: {error}")}).to_string();
    let mut response = Response::new(full_body(body));
    *response.status_mut() = error.status();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
