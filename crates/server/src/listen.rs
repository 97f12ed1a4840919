//! The accept loop: bounded connections, header timeouts that really fire, and a graceful end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::config::Config;
use crate::patience::Patient;

/// After an accept that failed for want of descriptors, to let some connections end.
const BREATH: Duration = Duration::from_millis(50);

/// Headers of one request, all together.
const MAX_HEADER_BYTES: usize = 64 << 10;
const MAX_STREAMS: u32 = 64;

/// The open connections of a server.
pub struct Connections {
    router: Router,
    builder: auto::Builder<TokioExecutor>,
    permits: Arc<Semaphore>,
    graceful: GracefulShutdown,
    tasks: TaskTracker,
    header_timeout: Duration,
    write_timeout: Duration,
}

impl Connections {
    pub fn new(router: Router, config: &Config) -> Connections {
        Connections {
            router,
            builder: builder(config.header_timeout),
            permits: Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS))),
            graceful: GracefulShutdown::new(),
            tasks: TaskTracker::new(),
            header_timeout: config.header_timeout,
            write_timeout: config.write_timeout,
        }
    }

    /// Accepts until told to stop. A full house leaves further clients waiting in the kernel's queue.
    pub async fn accept(&self, listener: &TcpListener, stop: &CancellationToken) {
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
                Ok((stream, _)) => self.serve(stream, permit),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }

    /// Ends idle connections at once and waits until the others have their answers.
    pub async fn finish(self) {
        self.graceful.shutdown().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn serve(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        let connection = Connection {
            stream,
            router: self.router.clone(),
            builder: self.builder.clone(),
            watcher: self.graceful.watcher(),
            header_timeout: self.header_timeout,
            write_timeout: self.write_timeout,
        };
        self.tasks.spawn(async move {
            connection.run().await;
            drop(permit);
        });
    }
}

struct Connection {
    stream: TcpStream,
    router: Router,
    builder: auto::Builder<TokioExecutor>,
    watcher: Watcher,
    header_timeout: Duration,
    write_timeout: Duration,
}

impl Connection {
    async fn run(self) {
        // Answers are small and wanted at once. A failure here costs only speed.
        let _ = self.stream.set_nodelay(true);
        let spoke = Arc::new(AtomicBool::new(false));
        let service = service_fn({
            let spoke = spoke.clone();
            let router = self.router;
            move |request: Request<Incoming>| {
                spoke.store(true, Ordering::Relaxed);
                let router = router.clone();
                async move { Ok::<_, Infallible>(answer(router, request).await) }
            }
        });
        let stream = TokioIo::new(Patient::new(self.stream, self.write_timeout));
        let connection = self.builder.serve_connection(stream, service).into_owned();
        let mut connection = std::pin::pin!(self.watcher.watch(connection));
        // hyper's header timeout starts when the protocol is known. Until then a silent client is our own business.
        let silent = tokio::time::sleep(self.header_timeout);
        let result = tokio::select! {
            result = &mut connection => result,
            () = silent => match spoke.load(Ordering::Relaxed) {
                true => connection.await,
                false => return,
            },
        };
        if let Err(error) = result {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

async fn answer(router: Router, request: Request<Incoming>) -> axum::response::Response {
    match router.oneshot(request.map(Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn builder(header_timeout: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header_timeout).max_buf_size(MAX_HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .keep_alive_interval(header_timeout)
        .keep_alive_timeout(header_timeout);
    builder
}
