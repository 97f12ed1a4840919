//! A typical socket proxy: it checks the method and the path of a request, and copies bytes.

use docker_proxy::Address;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};

/// The paths that socket proxies usually allow with containers, images, volumes and POST enabled.
const SECTIONS: &[&str] = &["/_ping", "/version", "/info", "/containers", "/images", "/volumes"];

pub(crate) struct UrlFilter {
    directory: TempDir,
    task: AbortHandle,
}

impl UrlFilter {
    pub(crate) async fn start(engine: Address) -> UrlFilter {
        let directory = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(directory.path().join("filter.sock")).expect("a socket");
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(pass(stream, engine.clone()));
            }
        });
        UrlFilter { directory, task: task.abort_handle() }
    }

    pub(crate) fn address(&self) -> Address {
        Address::Unix(self.directory.path().join("filter.sock"))
    }
}

impl Drop for UrlFilter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the head, decides by its first line, and then carries bytes both ways, upgrades included.
async fn pass(mut client: UnixStream, engine: Address) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        match client.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => head.extend_from_slice(&buffer[..read]),
        }
    }
    if !allowed(&String::from_utf8_lossy(&head)) {
        let _ = client
            .write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .await;
        return;
    }
    let Address::Unix(path) = engine else { panic!("a unix socket") };
    let Ok(mut engine) = UnixStream::connect(path).await else { return };
    if engine.write_all(&head).await.is_ok() {
        let _ = copy_bidirectional(&mut client, &mut engine).await;
    }
}

/// `^(GET|HEAD|POST|DELETE) (/v1\.[0-9]+)?(/_ping|/version|…)`, the rest of the path free.
fn allowed(head: &str) -> bool {
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = match target.strip_prefix("/v1.") {
        Some(rest) => rest.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => target,
    };
    ["GET", "HEAD", "POST", "DELETE"].contains(&method)
        && SECTIONS.iter().any(|section| path.starts_with(section))
}
