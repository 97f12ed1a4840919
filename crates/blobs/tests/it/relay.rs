//! A relay between a client and the S3 server that injects faults.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The fault, depending on the first line of a request.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Pass,
    /// Forwards nothing in either direction and closes no connection.
    Stall,
    /// Answers the request itself if the function returns a status and a code.
    Answer(fn(&str) -> Option<(u16, &'static str)>),
    /// Forwards these requests and drops the server's response.
    Lose(fn(&str) -> bool),
}

pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    connections: Option<JoinSet<()>>,
    _nobody: Option<TcpListener>,
}

struct Shared {
    server: String,
    rule: watch::Sender<Rule>,
    /// The number of requests that the rule applied to.
    touched: watch::Sender<usize>,
}

impl Relay {
    /// A relay to the server at this URL.
    pub(crate) async fn to(url: &str) -> Relay {
        Relay::new(url.trim_start_matches("http://").trim_end_matches('/').to_owned(), None).await
    }

    /// A relay to a listener that never answers; the rule must answer.
    pub(crate) async fn to_nobody() -> Relay {
        let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Relay::new(nobody.local_addr().expect("an address").to_string(), Some(nobody)).await
    }

    async fn new(server: String, nobody: Option<TcpListener>) -> Relay {
        let shared =
            Shared { server, rule: watch::Sender::new(Rule::Pass), touched: watch::Sender::new(0) };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut relay =
            Relay { address, shared: Arc::new(shared), connections: None, _nobody: nobody };
        relay.listen(listener);
        relay
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn set(&self, rule: Rule) {
        self.shared.rule.send_replace(rule);
    }

    /// How often the rule was applied.
    pub(crate) fn so_far(&self) -> usize {
        *self.shared.touched.borrow()
    }

    /// Waits until the rule was applied this often in total.
    pub(crate) async fn touched(&self, count: usize) {
        self.shared
            .touched
            .subscribe()
            .wait_for(|touched| *touched >= count)
            .await
            .expect("the sender lives");
    }

    /// Closes every connection and rejects new ones.
    pub(crate) async fn cut(&mut self) {
        if let Some(mut connections) = self.connections.take() {
            connections.shutdown().await;
        }
    }

    /// Accepts connections again after `cut`.
    pub(crate) async fn restore(&mut self) {
        self.listen(TcpListener::bind(self.address).await.expect("the same port"));
    }

    fn listen(&mut self, listener: TcpListener) {
        let shared = self.shared.clone();
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, shared.clone()));
            }
        });
        self.connections = Some(listening);
    }
}

async fn carry(client: TcpStream, shared: Arc<Shared>) {
    let (from_client, mut to_client) = client.into_split();
    let Ok(server) = TcpStream::connect(&shared.server).await else { return };
    let (from_server, to_server) = server.into_split();
    let (lose, losing) = watch::channel(false);
    let refusal = tokio::select! {
        refusal = requests(from_client, to_server, &shared, &lose) => refusal,
        () = answers(from_server, &mut to_client, &shared, losing) => None,
    };
    if let Some(refusal) = refusal {
        let _ = to_client.write_all(refusal.as_bytes()).await;
    }
}

/// Returns with the response to give instead of the server's.
async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    lose: &watch::Sender<bool>,
) -> Option<String> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
        not_stalled(shared).await;
        let text = String::from_utf8_lossy(&buffer[..length.min(4000)]).into_owned();
        let line =
            text.lines().next().filter(|line| line.ends_with(" HTTP/1.1")).unwrap_or_default();
        let rule = *shared.rule.borrow();
        match rule {
            Rule::Answer(answer) if !line.is_empty() => {
                if let Some((status, code)) = answer(line) {
                    shared.touched.send_modify(|touched| *touched += 1);
                    return Some(refusal(line, status, code));
                }
            }
            Rule::Lose(lost) if !line.is_empty() && lost(line) => {
                shared.touched.send_modify(|touched| *touched += 1);
                lose.send_replace(true);
            }
            _ => {}
        }
        to.write_all(&buffer[..length]).await.ok()?;
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    shared: &Shared,
    losing: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        not_stalled(shared).await;
        if *losing.borrow() || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

async fn not_stalled(shared: &Shared) {
    let passes = |rule: &Rule| !matches!(rule, Rule::Stall);
    shared.rule.subscribe().wait_for(passes).await.expect("the sender lives");
}

fn refusal(line: &str, status: u16, code: &str) -> String {
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>by the relay</Message></Error>"
    );
    let body = if line.starts_with("HEAD") { "" } else { &body };
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Refused\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
