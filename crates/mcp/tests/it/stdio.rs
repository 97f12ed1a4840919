//! The transport over two streams.

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex,
    split,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{RunEvent, fake_skills};

/// A client that sends and receives lines.
struct StdioClient {
    output: WriteHalf<DuplexStream>,
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    run_events: UnboundedReceiver<RunEvent>,
    served: JoinHandle<std::io::Result<()>>,
    /// The id of the last request.
    last_id: u32,
}

impl StdioClient {
    async fn start() -> StdioClient {
        let (ours, theirs) = duplex(1 << 20);
        let (served_skills, run_events) = fake_skills();
        let (input, output) = split(theirs);
        let served =
            tokio::spawn(mcp::serve(served_skills, input, output, CancellationToken::new()));
        let (input, output) = split(ours);
        let mut client = StdioClient {
            output,
            input: BufReader::new(input).lines(),
            run_events,
            served,
            last_id: 0,
        };
        let info = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        let answer = client.request("initialize", params).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "skillbox", "{answer}");
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string())
            .await;
        client
    }

    async fn send(&mut self, line: &str) {
        self.output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.input.next_line().await.unwrap().expect("a line")).unwrap()
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params })
                .to_string(),
        )
        .await;
        self.receive().await
    }

    /// Starts a run with a progress token, and waits until it has started.
    async fn start_run(&mut self) {
        let params = json!({
            "name": "run_skill_script", "arguments": { "skill": "wait" }, "_meta": { "progressToken": "p" },
        });
        let notification = self.request("tools/call", params).await;
        assert_eq!(
            (&notification["method"], &notification["params"]["message"]),
            (&json!("notifications/progress"), &json!("began"))
        );
        assert_eq!(self.run_events.recv().await, Some(RunEvent::Started));
    }
}

#[tokio::test]
async fn a_cancelled_call_cancels_its_run_and_gets_no_response() {
    let mut client = StdioClient::start().await;
    client.start_run().await;
    let params = json!({ "requestId": client.last_id, "reason": "enough" });
    client
        .send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
                .to_string(),
        )
        .await;
    assert_eq!(client.run_events.recv().await, Some(RunEvent::Cancelled));
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn the_end_of_input_cancels_runs_and_then_stops_the_server() {
    let mut client = StdioClient::start().await;
    client.start_run().await;
    client.output.shutdown().await.unwrap();
    assert_eq!(client.run_events.recv().await, Some(RunEvent::Cancelled));
    client.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn invalid_requests_get_errors_and_the_server_goes_on() {
    let mut client = StdioClient::start().await;
    client.send("{").await;
    client.send("not JSON").await;
    assert_eq!(client.request("no/such", json!({})).await["error"]["code"], -32601);
    assert_eq!(client.request("tools/call", json!({ "name": 7 })).await["error"]["code"], -32602);
    for uri in [
        "", "skill://", "skill://a", "skill://../../etc/passwd", "file:///etc/passwd",
        "execution://x/..%2fy",
    ] {
        let answer = client.request("resources/read", json!({ "uri": uri })).await;
        assert!(answer["error"]["message"].is_string(), "{uri}: {answer}");
    }
    for (name, arguments) in [
        ("run_skill_script", json!({})),
        ("run_skill_script", json!({ "skill": "wait", "args": "not a list" })),
        ("run_skill_script", json!({ "skill": "wait", "unknown": 1 })),
        ("load_skill", json!({ "skill": "../etc" })),
        ("no_such_tool", json!({})),
        ("load_skill", json!({ "skill": "x".repeat(1 << 20) })),
    ] {
        let answer =
            client.request("tools/call", json!({ "name": name, "arguments": arguments })).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer.to_string().len() < 10_000, "the error does not echo the whole request");
    }
    let listed = client.request("tools/call", json!({ "name": "list_skills" })).await;
    assert_eq!(listed["result"]["structuredContent"]["skills"][0]["name"], "wait");
}
