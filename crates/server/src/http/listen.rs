//! The accept loop: limits on open connections, in total and by address, and graceful shutdown.

mod connection;
mod peers;
mod progress;
mod streams;
mod write_timeout;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, Http2Limits};
use crate::http::peer::Peer;
use connection::HttpConnection;
use peers::{PeerSlot, PeerSlots};

/// After an accept that failed, usually for lack of file descriptors: some connections may end
/// meanwhile, and the loop does not spin.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The response to a connection over the limit of its address. It is written without waiting and
/// without reading, because a client over its limit must not hold any resource.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\n\
    HttpConnection: close\r\nContent-Length: 108\r\n\r\n\
    {\"error\":\"too_busy\",\"message\":\"There are too many connections from this address. Close some and try again.\"}";

/// Counters of connections, for `/metrics`.
#[derive(Default)]
pub(crate) struct ConnectionMeter {
    pub open: AtomicUsize,
    /// Refused, because their address was at its limit.
    pub refused: AtomicU64,
}

/// Timeouts of clients, and their limits on HTTP/2.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionLimits {
    pub header_timeout: Duration,
    pub write_timeout: Duration,
    pub http2: Http2Limits,
}

/// The open connections of a server.
pub(crate) struct HttpConnections {
    router: Router,
    permits: Arc<Semaphore>,
    peers: Arc<PeerSlots>,
    meter: Arc<ConnectionMeter>,
    stop: CancellationToken,
    tasks: TaskTracker,
    limits: ConnectionLimits,
}

impl HttpConnections {
    pub(crate) fn new(
        router: Router,
        config: &Config,
        meter: Arc<ConnectionMeter>,
    ) -> HttpConnections {
        HttpConnections {
            router,
            permits: Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS))),
            peers: PeerSlots::new(config.max_connections_per_peer, config.trusted_proxies.clone()),
            meter,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            limits: ConnectionLimits {
                header_timeout: config.header_timeout,
                write_timeout: config.write_timeout,
                http2: config.http2,
            },
        }
    }

    /// Accepts connections until `stop` is cancelled. At the limit, further clients wait in the
    /// kernel's backlog.
    pub(crate) async fn accept(&self, listener: &TcpListener, stop: &CancellationToken) {
        loop {
            let permit = tokio::select! {
                permit = self.permits.clone().acquire_owned() => permit,
                () = stop.cancelled() => return,
            };
            let Ok(permit) = permit else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            match accepted {
                Ok((stream, address)) => self.admit(stream, address, permit),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    /// Closes idle connections at once and waits until the others have got their responses.
    pub(crate) async fn finish(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn admit(&self, stream: TcpStream, address: SocketAddr, permit: OwnedSemaphorePermit) {
        let peer = Peer::new(address.ip());
        match self.peers.acquire(peer) {
            Some(slot) => self.serve(stream, peer, (permit, slot)),
            None => {
                self.meter.refused.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%address, "a connection over the limit of its address was refused");
                // Best effort: the client may lose the response, because unread data resets the
                // connection when it is closed.
                let _ = stream.try_write(TOO_MANY_CONNECTIONS);
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: Peer, slots: (OwnedSemaphorePermit, PeerSlot)) {
        let connection = HttpConnection {
            stream,
            peer,
            router: self.router.clone(),
            stop: self.stop.clone(),
            limits: self.limits,
        };
        let open = OpenConnectionGuard::new(&self.meter);
        self.tasks.spawn(async move {
            connection.run().await;
            drop((slots, open));
        });
    }
}

/// Counts a connection in the gauge until it is dropped.
struct OpenConnectionGuard(Arc<ConnectionMeter>);

impl OpenConnectionGuard {
    fn new(meter: &Arc<ConnectionMeter>) -> OpenConnectionGuard {
        meter.open.fetch_add(1, Ordering::Relaxed);
        OpenConnectionGuard(Arc::clone(meter))
    }
}

impl Drop for OpenConnectionGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_a_complete_response() {
        let text = std::str::from_utf8(TOO_MANY_CONNECTIONS).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", body.len()))
                || head.ends_with(&body.len().to_string())
        );
        assert!(
            serde_json::from_str::<serde_json::Value>(body)
                .is_ok_and(|body| body["error"] == "too_busy")
        );
    }
}
