//! A fake engine that records its requests, a proxy in front of it, and a client that sends raw
//! bytes.

pub(crate) mod engine;
pub(crate) mod filter;

use std::time::Duration;

use docker_proxy::{Address, ContainerPolicy, Proxy, ProxyConfig, ProxyLimits};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use engine::{FakeEngine, RecordedRequest};

pub(crate) const INSTANCE: &str = "test";
pub(crate) const IMAGE: &str = "python:3.12-slim";
pub(crate) const PROFILE: &str = r#"{"defaultAction":"SCMP_ACT_ERRNO"}"#;
pub(crate) const FILLER: [&str; 4] = ["/bin/sh", "-c", "cat > /skillbox/skillbox-guest", "fill"];

/// A test that waits this long hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) async fn with_timeout<F: Future>(what: &str, work: F) -> F::Output {
    timeout(TEST_TIMEOUT, work).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

pub(crate) fn policy() -> ContainerPolicy {
    ContainerPolicy {
        instance: INSTANCE.into(),
        images: vec![IMAGE.into(), "bash:5".into()],
        runtimes: vec!["runsc".into()],
        seccomp: vec![PROFILE.into()],
        filler: FILLER.map(str::to_owned).to_vec(),
        max_memory_bytes: 1 << 30,
        max_nano_cpus: 4_000_000_000,
        max_pids: 512,
        max_guest_bytes: 64 << 20,
        working_dirs: vec!["/".to_owned()],
        max_image_volumes: 0,
        max_volumes: 4,
    }
}

/// A running proxy on a socket in its own directory.
pub(crate) struct RunningProxy {
    _directory: TempDir,
    pub address: Address,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl RunningProxy {
    pub(crate) async fn start(
        engine: Address,
        change: impl FnOnce(&mut ProxyConfig),
    ) -> RunningProxy {
        let directory = tempfile::tempdir().expect("a directory");
        let listen = Address::Unix(directory.path().join("proxy.sock"));
        let mut config = ProxyConfig {
            listen,
            engine,
            hosts: vec![],
            policy: policy(),
            limits: ProxyLimits::default(),
        };
        change(&mut config);
        let proxy = Proxy::bind(config).await.expect("a proxy");
        let address = proxy.address().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(proxy.serve(async move { drop(stopped.await) }));
        RunningProxy { _directory: directory, address, stop: Some(stop), task }
    }

    pub(crate) async fn connect(&self) -> UnixStream {
        let Address::Unix(path) = &self.address else { panic!("a unix socket") };
        UnixStream::connect(path).await.expect("a connection")
    }

    /// Sends raw bytes and reads the whole response.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> RawResponse {
        let mut stream = self.connect().await;
        // The proxy may have answered and closed before it has read everything.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = with_timeout("an answer", stream.read_to_end(&mut answer)).await;
        RawResponse::read(&answer)
    }

    /// Sends raw bytes and closes its direction.
    pub(crate) async fn raw_and_close(&self, bytes: &[u8]) {
        let mut stream = self.connect().await;
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let _ = with_timeout("the end", stream.read_to_end(&mut Vec::new())).await;
    }

    pub(crate) async fn ask(&self, method: &str, target: &str, body: &str) -> RawResponse {
        self.raw(request(method, target, body).as_bytes()).await
    }

    pub(crate) async fn create(&self, body: &Value) -> RawResponse {
        self.ask("POST", "/v1.44/containers/create", &body.to_string()).await
    }

    /// Shuts the proxy down, and waits until it has stopped.
    pub(crate) async fn stop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        with_timeout("the end of the proxy", &mut self.task).await.expect("no panic");
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn request(method: &str, target: &str, body: &str) -> String {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    format!(
        "{method} {target} HTTP/1.1\r\nHost: x\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A response, split into status, head and body.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl RawResponse {
    pub(crate) fn read(bytes: &[u8]) -> RawResponse {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        RawResponse {
            status,
            head: head.to_owned(),
            body: if chunked { joined(body) } else { body.to_owned() },
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_else(|| panic!("no message: {self:?}")).to_owned()
    }
}

/// Joins the chunks of a chunked body.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0).min(rest.len());
        whole.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

/// A fake engine and a proxy in front of it.
pub(crate) async fn pair() -> (FakeEngine, RunningProxy) {
    let engine = FakeEngine::start().await;
    let proxy = RunningProxy::start(engine.address(), |_| {}).await;
    (engine, proxy)
}

/// The requests that are not lookups of the proxy itself.
pub(crate) fn mutating_requests(requests: &[RecordedRequest]) -> Vec<&RecordedRequest> {
    requests.iter().filter(|requests| requests.method != "GET").collect()
}
