//! The listener of the API, which can be stopped and resumed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// Serves the API while it is not stopped.
pub(crate) struct ApiServer {
    address: SocketAddr,
    router: Router,
    acceptor: TlsAcceptor,
    /// Cancelled to close every connection; `None` while stopped.
    up: Mutex<Option<CancellationToken>>,
    tasks: TaskTracker,
}

impl ApiServer {
    pub(crate) fn start(router: Router, acceptor: TlsAcceptor) -> std::io::Result<ApiServer> {
        let listener = listen("127.0.0.1:0".parse().map_err(std::io::Error::other)?)?;
        let server = ApiServer {
            address: listener.local_addr()?,
            router,
            acceptor,
            up: Mutex::default(),
            tasks: TaskTracker::new(),
        };
        server.serve(listener);
        Ok(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes every connection and refuses new ones.
    pub(crate) async fn stop(&self) {
        if let Some(up) = self.up.lock().unwrap_or_else(PoisonError::into_inner).take() {
            up.cancel();
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Listens again at the same address.
    pub(crate) fn resume(&self) -> std::io::Result<()> {
        self.tasks.reopen();
        self.serve(listen(self.address)?);
        Ok(())
    }

    fn serve(&self, listener: TcpListener) {
        let up = CancellationToken::new();
        self.up.lock().unwrap_or_else(PoisonError::into_inner).replace(up.clone());
        let (router, acceptor, tasks) =
            (self.router.clone(), self.acceptor.clone(), self.tasks.clone());
        self.tasks.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = up.cancelled() => return,
                };
                let Ok((stream, _)) = accepted else { continue };
                let connection = connection(stream, acceptor.clone(), router.clone(), up.clone());
                let up = up.clone();
                tasks.spawn(async move {
                    tokio::select! {
                        () = connection => {}
                        () = up.cancelled() => {}
                    }
                });
            }
        });
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // Closed connections in TIME_WAIT must not block the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(128)
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    up: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |mut request: Request<Incoming>| {
        let router = router.clone();
        // Upgraded connections outlive this service and must end with the server too.
        request.extensions_mut().insert(up.clone());
        async move {
            let answered = router.oneshot(request.map(Body::new)).await;
            Ok::<_, Infallible>(match answered {
                Ok(response) => response,
                Err(never) => match never {},
            })
        }
    });
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection_with_upgrades(TokioIo::new(stream), service)
        .await;
}
