//! On two streams.

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex,
    split,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{News, waiting};

/// A program that speaks lines.
struct Client {
    output: WriteHalf<DuplexStream>,
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    news: UnboundedReceiver<News>,
    served: JoinHandle<std::io::Result<()>>,
    /// The id of the last request.
    asked: u32,
}

impl Client {
    async fn start() -> Client {
        let (ours, theirs) = duplex(1 << 20);
        let (offer, news) = waiting();
        let (input, output) = split(theirs);
        let served = tokio::spawn(mcp::serve(offer, input, output, CancellationToken::new()));
        let (input, output) = split(ours);
        let mut client =
            Client { output, input: BufReader::new(input).lines(), news, served, asked: 0 };
        let info = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        let answer = client.ask("initialize", params).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "skillbox", "{answer}");
        client
            .say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string())
            .await;
        client
    }

    async fn say(&mut self, line: &str) {
        self.output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.input.next_line().await.unwrap().expect("a line")).unwrap()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        self.say(
            &json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params })
                .to_string(),
        )
        .await;
        self.hear().await
    }

    /// A run that goes on, asked for with a token for its progress.
    async fn run(&mut self) {
        let params = json!({
            "name": "run_skill_script", "arguments": { "skill": "wait" }, "_meta": { "progressToken": "p" },
        });
        let told = self.ask("tools/call", params).await;
        assert_eq!(
            (&told["method"], &told["params"]["message"]),
            (&json!("notifications/progress"), &json!("began"))
        );
        assert_eq!(self.news.recv().await, Some(News::Began));
    }
}

#[tokio::test]
async fn a_cancelled_call_stops_and_gets_no_answer() {
    let mut client = Client::start().await;
    client.run().await;
    let params = json!({ "requestId": client.asked, "reason": "enough" });
    client
        .say(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
                .to_string(),
        )
        .await;
    assert_eq!(client.news.recv().await, Some(News::Stopped));
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn the_end_of_the_input_stops_what_runs_and_then_the_server() {
    let mut client = Client::start().await;
    client.run().await;
    client.output.shutdown().await.unwrap();
    assert_eq!(client.news.recv().await, Some(News::Stopped));
    client.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn nonsense_is_told_and_harms_nothing() {
    let mut client = Client::start().await;
    client.say("{").await;
    client.say("not JSON").await;
    assert_eq!(client.ask("no/such", json!({})).await["error"]["code"], -32601);
    assert_eq!(client.ask("tools/call", json!({ "name": 7 })).await["error"]["code"], -32602);
    for uri in [
        "", "skill://", "skill://a", "skill://../../etc/passwd", "file:///etc/passwd",
        "execution://x/..%2fy",
    ] {
        let answer = client.ask("resources/read", json!({ "uri": uri })).await;
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
            client.ask("tools/call", json!({ "name": name, "arguments": arguments })).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer.to_string().len() < 10_000, "what was sent is not sent back whole");
    }
    let listed = client.ask("tools/call", json!({ "name": "list_skills" })).await;
    assert_eq!(listed["result"]["structuredContent"]["skills"][0]["name"], "wait");
}
