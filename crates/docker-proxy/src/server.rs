//! The proxy as a server: accepts, bounds, logs refusals, and ends in good order.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::address::{Accepted, Address, Listener, Stream};
use crate::config::{Config, Limits};
use crate::engine::{Engine, Order};
use crate::gate::{Body, Gate, whole};
use crate::refusal::Refusal;

/// A proxy that listens and has not started to answer.
pub struct Proxy {
    listener: Listener,
    gate: Arc<Gate>,
}

/// Why a proxy cannot run.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}: {source}")]
pub struct ProxyError {
    address: Address,
    source: io::Error,
}

/// Listens and answers until `shutdown`, then lets what is under way end.
pub async fn serve(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), ProxyError> {
    Proxy::bind(config).await?.serve(shutdown).await;
    Ok(())
}

/// Asks whoever listens there whether the engine answers, through it.
pub async fn ping(address: &Address) -> Result<(), Refusal> {
    let answer = Engine::new(address.clone(), Limits::default())
        .send(Order::get("/_ping".to_owned()))
        .await?;
    match answer.status() {
        StatusCode::OK => Ok(()),
        other => Err(Refusal::EngineOdd(format!("it was {other}"))),
    }
}

impl Proxy {
    pub async fn bind(config: Config) -> Result<Proxy, ProxyError> {
        let address = config.listen.clone();
        let listener = address.listen().await.map_err(|source| ProxyError { address, source })?;
        Ok(Proxy { listener, gate: Arc::new(Gate::new(config)) })
    }

    /// Where it really listens.
    pub fn address(&self) -> io::Result<Address> {
        self.listener.address()
    }

    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Proxy { listener, gate } = self;
        let drain = gate.config.limits.drain;
        let connections = Connections::new(gate);
        tokio::select! {
            () = shutdown => {}
            () = connections.accept(&listener) => {}
        }
        drop(listener);
        connections.end(drain).await;
    }
}

struct Connections {
    gate: Arc<Gate>,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    /// No new requests.
    stop: CancellationToken,
    /// Nothing at all any more.
    cut: CancellationToken,
}

impl Connections {
    fn new(gate: Arc<Gate>) -> Connections {
        let places = Arc::new(Semaphore::new(gate.config.limits.connections));
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        Connections { gate, places, tasks: TaskTracker::new(), stop, cut }
    }

    /// Accepts as long as there are places; whoever comes later waits in the kernel's queue.
    async fn accept(&self, listener: &Listener) {
        loop {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok(Accepted { stream, peer, local }) => {
                    let connection = Connection {
                        gate: Arc::clone(&self.gate),
                        peer,
                        local,
                        place: Arc::new(place),
                        tasks: self.tasks.clone(),
                        cut: self.cut.clone(),
                        lasting: AtomicBool::new(false),
                    };
                    self.tasks.spawn(Arc::new(connection).serve(stream, self.stop.clone()));
                }
                Err(error) => {
                    // Out of descriptors, most likely: others must end first, and asking at once
                    // would only spin.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn end(self, drain: std::time::Duration) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(drain, self.tasks.wait()).await.is_err() {
            tracing::warn!(open = self.tasks.len(), "cutting the streams that are still open");
        }
        self.cut.cancel();
        self.tasks.wait().await;
    }
}

/// One connection, which carries one request.
struct Connection {
    gate: Arc<Gate>,
    peer: String,
    local: Option<IpAddr>,
    place: Arc<OwnedSemaphorePermit>,
    tasks: TaskTracker,
    cut: CancellationToken,
    lasting: AtomicBool,
}

impl Connection {
    async fn serve(self: Arc<Self>, stream: Stream, stop: CancellationToken) {
        let limits = &self.gate.config.limits;
        let this = &self;
        let service = service_fn(move |request| {
            let this = Arc::clone(this);
            async move { Ok::<_, std::convert::Infallible>(this.answer(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.request)
            // One request a connection: there is no next one to confuse it with.
            .keep_alive(false)
            .max_headers(64)
            .max_buf_size(16 << 10)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::pin!(connection);
        let mut stopping = false;
        let ended = loop {
            tokio::select! {
                ended = &mut connection => break ended,
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = self.cut.cancelled() => return,
                () = self.overdue() => return,
            }
        };
        match ended {
            Err(error) if error.is_parse() || error.is_timeout() => {
                tracing::warn!(peer = %self.peer, reason = %error, "refused what is no request");
            }
            // Somebody went away, which is nobody's fault.
            _ => {}
        }
    }

    /// Ends when the connection has had its time, unless it waits for a container.
    async fn overdue(&self) {
        sleep(self.gate.config.limits.exchange).await;
        if self.lasting.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method().clone(), shown(request.uri()));
        match self.gate.pass(request, self.local).await {
            Ok((response, passed)) => {
                tracing::debug!(%method, path, status = response.status().as_u16(), peer = self.peer, "passed");
                self.lasting.store(passed.lasting, Ordering::Relaxed);
                if let Some(stream) = passed.stream {
                    self.carry(stream);
                }
                response
            }
            Err(refusal) => {
                tracing::warn!(%method, path, reason = %refusal, peer = self.peer, "refused");
                refused(&refusal)
            }
        }
    }

    /// The stream outlives the exchange that opened it, and keeps the connection's place.
    fn carry(&self, stream: crate::hijack::Ends) {
        let (place, cut, half_closed) =
            (Arc::clone(&self.place), self.cut.clone(), self.gate.config.limits.half_closed);
        self.tasks.spawn(async move {
            tokio::select! {
                carried = stream.carry(half_closed) => if let Err(error) = carried {
                    tracing::debug!(%error, "a stream was agreed on and never opened");
                },
                () = cut.cancelled() => {}
            }
            drop(place);
        });
    }
}

/// The path as a log may show it: no character that means something to a terminal, and not too
/// long.
fn shown(uri: &http::Uri) -> String {
    uri.to_string().escape_debug().take(300).collect()
}

/// A refusal in the form of the engine's own errors.
fn refused(refusal: &Refusal) -> Response<Body> {
    let body =
        serde_json::json!({"message": format!("skillbox docker-proxy: {refusal}")}).to_string();
    let mut response = Response::new(whole(body));
    *response.status_mut() = refusal.status();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
