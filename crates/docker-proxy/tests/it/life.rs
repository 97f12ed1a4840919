//! The lifecycle of a container through the proxy, on a real engine.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::PathBuf;

use docker_proxy::Address;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::bodies::{filler, mount, sandbox};
use crate::support::{FILLER, RawResponse, RunningProxy, request, with_timeout};

const IMAGE: &str = "skillbox/bash:test";
/// What the engine is given here is not what keeps anything in: the launcher's own tests try its
/// own.
const OPEN: &str = r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#;

/// A real engine, a proxy in front of it, and the end of everything made.
struct ProxiedEngine {
    proxy: RunningProxy,
    engine: DirectEngine,
    volume: String,
}

/// The engine without the proxy, as an operator has it. Dropping it removes the leftovers.
pub(crate) struct DirectEngine {
    socket: PathBuf,
    pub leftovers: Vec<String>,
}

impl DirectEngine {
    /// The engine for tests; without one it prints that the test was skipped.
    #[expect(
        clippy::disallowed_methods,
        reason = "scripts/test.sh starts the engine and says where it is"
    )]
    pub(crate) fn find(test: &str) -> Option<DirectEngine> {
        let Ok(engine) = std::env::var("SKILLBOX_TEST_ENGINE") else {
            println!("NEEDS ENGINE: docker-proxy: {test}");
            return None;
        };
        let Ok(Address::Unix(socket)) = engine.parse() else {
            panic!("{engine} is no unix socket")
        };
        Some(DirectEngine { socket, leftovers: Vec::new() })
    }

    pub(crate) fn address(&self) -> Address {
        Address::Unix(self.socket.clone())
    }

    pub(crate) fn ask(&self, method: &str, target: &str, body: &str) -> RawResponse {
        self.try_ask(method, target, body).expect("the engine answers")
    }

    /// For a test that has failed already, perhaps because there is no answer.
    pub(crate) fn try_ask(
        &self,
        method: &str,
        target: &str,
        body: &str,
    ) -> std::io::Result<RawResponse> {
        let mut stream = BlockingStream::connect(&self.socket)?;
        let request =
            request(method, target, body).replacen("\r\n", "\r\nConnection: close\r\n", 1);
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(RawResponse::read(&answer))
    }
}

impl Drop for DirectEngine {
    fn drop(&mut self) {
        for target in &self.leftovers {
            let _ = self.try_ask("DELETE", target, "");
        }
    }
}

async fn start_proxied(test: &str) -> Option<ProxiedEngine> {
    let mut engine = DirectEngine::find(test)?;
    let id = format!("{test}-{}", std::process::id());
    let proxy = RunningProxy::start(engine.address(), |config| {
        config.policy.instance = id.clone();
        config.policy.images = vec![IMAGE.into()];
        config.policy.seccomp = vec![OPEN.into()];
    })
    .await;
    let volume = format!("skillbox-{id}");
    engine.leftovers.push(format!("/volumes/{volume}"));
    Some(ProxiedEngine { proxy, engine, volume })
}

impl ProxiedEngine {
    async fn image(&self) -> String {
        let answer = self.proxy.ask("GET", &format!("/images/{IMAGE}/json"), "").await;
        answer.json()["Id"].as_str().unwrap_or_else(|| panic!("no id: {answer:?}")).to_owned()
    }

    async fn body(&self, mut body: Value, mount: Value) -> Value {
        body["Image"] = self.image().await.into();
        body["HostConfig"]["SecurityOpt"][1] = format!("seccomp={OPEN}").into();
        body["HostConfig"]["Mounts"] = json!([mount]);
        body["HostConfig"]["Mounts"][0]["Source"] = self.volume.as_str().into();
        body
    }

    /// Makes and starts a container with its stream attached.
    async fn run(&mut self, body: Value) -> (String, UnixStream) {
        let answer = self.proxy.ask("POST", "/containers/create", &body.to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let id = answer.json()["Id"].as_str().expect("an id").to_owned();
        // Containers before the volume that they use.
        self.engine.leftovers.insert(0, format!("/containers/{id}?force=1"));
        let stream = self.attach(&id).await;
        let answer = self.proxy.ask("POST", &format!("/containers/{id}/start"), "").await;
        assert_eq!(answer.status, 204, "{answer:?}");
        (id, stream)
    }

    async fn attach(&self, id: &str) -> UnixStream {
        let mut stream = self.proxy.connect().await;
        let request = format!(
            "POST /containers/{id}/attach?stream=1&stdin=1&stdout=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(with_timeout("an attach", stream.read_u8()).await.expect("a byte"));
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        stream
    }

    async fn exit_code(&self, id: &str) -> Value {
        let answer = self
            .proxy
            .ask("POST", &format!("/containers/{id}/wait?condition=not-running"), "")
            .await;
        answer.json()["StatusCode"].clone()
    }

    async fn fill_volume(&mut self) {
        let volume = json!({"Name": self.volume, "Labels": {"skillbox.version": "test"}});
        let answer = self.proxy.ask("POST", "/volumes/create", &volume.to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let body = self.body(filler(), mount(false)).await;
        assert_eq!(body["Entrypoint"][2], FILLER[2]);
        let (id, mut stream) = self.run(body).await;
        stream.write_all(b"what was filled in\n").await.expect("written");
        stream.shutdown().await.expect("closed");
        assert_eq!(self.exit_code(&id).await, 0);
        self.remove(&id).await;
    }

    async fn remove(&self, id: &str) {
        assert_eq!(
            self.proxy
                .ask("DELETE", &format!("/containers/{id}?force=true&v=true"), "")
                .await
                .status,
            204
        );
        assert_eq!(self.proxy.ask("GET", &format!("/containers/{id}/json"), "").await.status, 404);
    }
}

/// Payloads of the engine's frames: eight bytes of head, of which the last four are the length.
async fn read_payloads(stream: &mut UnixStream, want: usize) -> String {
    let mut text = Vec::new();
    while text.len() < want {
        let mut head = [0; 8];
        with_timeout("a frame", stream.read_exact(&mut head)).await.expect("a head");
        let mut payload =
            vec![0; u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize];
        stream.read_exact(&mut payload).await.expect("a payload");
        text.extend(payload);
    }
    String::from_utf8(text).expect("text")
}

#[tokio::test]
async fn a_container_runs_from_creation_to_removal() {
    let Some(mut real) = start_proxied("a_container_runs_from_creation_to_removal").await else {
        return;
    };
    real.fill_volume().await;
    let mut body = real.body(sandbox(), mount(true)).await;
    body["Entrypoint"] = json!([
        "/bin/sh",
        "-c",
        "cat /skillbox/skillbox-guest; cat; id -u; echo x > /skillbox/y || echo end"
    ]);
    let (id, mut stream) = real.run(body).await;
    assert_eq!(read_payloads(&mut stream, 19).await, "what was filled in\n");
    stream.write_all(b"hello\n").await.expect("written");
    assert_eq!(read_payloads(&mut stream, 6).await, "hello\n");

    let inspected = real.proxy.ask("GET", &format!("/containers/{id}/json"), "").await.json();
    assert_eq!(inspected["Config"]["Labels"]["skillbox.owner"], "worker-1");
    assert_eq!(inspected["HostConfig"]["NetworkMode"], "none");
    let stats = real
        .proxy
        .ask("GET", &format!("/containers/{id}/stats?stream=false&one-shot=true"), "")
        .await
        .json();
    assert!(stats["memory_stats"]["usage"].as_u64().is_some_and(|bytes| bytes > 0), "{stats}");
    let listed = real.proxy.ask("GET", "/containers/json?all=true", "").await.json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");

    stream.shutdown().await.expect("closed");
    assert_eq!(read_payloads(&mut stream, 10).await, "65534\nend\n");
    assert_eq!(with_timeout("the end", stream.read(&mut [0])).await.expect("read"), 0);
    assert_eq!(real.exit_code(&id).await, 0);
    real.remove(&id).await;
}

#[tokio::test]
async fn a_running_container_can_be_killed() {
    let Some(mut real) = start_proxied("a_running_container_can_be_killed").await else { return };
    real.fill_volume().await;
    let mut body = real.body(sandbox(), mount(true)).await;
    body["Entrypoint"] = json!(["/bin/sh", "-c", "echo up; sleep 600"]);
    let (id, mut stream) = real.run(body).await;
    assert_eq!(read_payloads(&mut stream, 3).await, "up\n");
    assert_eq!(
        real.proxy.ask("POST", &format!("/containers/{id}/kill?signal=SIGKILL"), "").await.status,
        204
    );
    assert_eq!(real.exit_code(&id).await, 137);
    real.remove(&id).await;
}

#[tokio::test]
async fn a_foreign_container_is_not_accessible() {
    let Some(mut real) = start_proxied("foreign").await else { return };
    let name = format!("skillbox-stranger-{}", std::process::id());
    let body = json!({"Image": IMAGE, "Entrypoint": ["/bin/sleep", "600"], "Labels": {"skillbox.proxy": "another-instance"}});
    let made =
        real.engine.ask("POST", &format!("/containers/create?name={name}"), &body.to_string());
    let id = made.json()["Id"].as_str().unwrap_or_else(|| panic!("{made:?}")).to_owned();
    real.engine.leftovers.insert(0, format!("/containers/{id}?force=1"));
    for name in [id.as_str(), name.as_str(), &id[..12]] {
        for (method, rest) in [
            ("GET", "/json"),
            ("POST", "/start"),
            ("POST", "/kill"),
            ("POST", "/wait"),
            ("DELETE", "?force=1"),
        ] {
            assert_eq!(
                real.proxy.ask(method, &format!("/containers/{name}{rest}"), "").await.status,
                404
            );
        }
    }
    assert_eq!(real.proxy.ask("GET", "/containers/json?all=1", "").await.json(), json!([]));
    let still = real.engine.ask("GET", &format!("/containers/{id}/json"), "");
    assert_eq!(still.status, 200, "it is where it was: {still:?}");
}
