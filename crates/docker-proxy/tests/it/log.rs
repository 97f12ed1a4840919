//! Every rejected request is logged once, with its peer, request and reason.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::support::engine::FOREIGN;
use crate::support::pair;

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn every_rejected_request_is_logged_once() {
    let log_buffer = LogBuffer::default();
    let writer = log_buffer.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (_engine, proxy) = pair().await;
    assert_eq!(proxy.ask("GET", "/_ping", "").await.status, 200);
    for (method, target, body, reason) in [
        ("POST", "/containers/x/exec", "", "does not allow POST"),
        ("GET", "/%1b[2Jinfo", "", "characters that no route uses"),
        (
            "POST", "/containers/create", r#"{"HostConfig":{"privileged":true}}"#,
            "unknown field `privileged`",
        ),
        ("POST", &format!("/containers/{FOREIGN}/kill"), "", "no such container"),
    ] {
        log_buffer.0.lock().expect("a lock").clear();
        assert!(proxy.ask(method, target, body).await.status >= 400);
        let log = String::from_utf8(log_buffer.0.lock().expect("a lock").clone()).expect("text");
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines.len(), 1, "{log}");
        for part in ["WARN", "refused", method, target, reason, "uid "] {
            assert!(lines[0].contains(part), "{part} stands in {log}");
        }
        assert!(!log.contains('\u{1b}'));
    }
}
