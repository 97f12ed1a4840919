//! A one-connection-at-a-time HTTP server that gives one answer and remembers what it was asked.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the server was sent: the head with lower-case header names, and the body.
pub(crate) struct Asked {
    pub head: String,
    pub body: Vec<u8>,
}

impl Asked {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            (key == name).then_some(value)
        })
    }
}

pub(crate) struct Scripted {
    pub address: SocketAddr,
    asked: JoinHandle<Asked>,
}

impl Scripted {
    /// Answers one request with `answer`, written as it would stand on the wire, then closes.
    pub(crate) async fn answer(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let asked = read_request(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.expect("the answer is sent");
            asked
        });
        Self { address, asked }
    }

    /// Answers one request with a JSON body.
    pub(crate) async fn json(status: &str, body: &str) -> Self {
        let length = body.len();
        Self::answer(format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: req-1\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn asked(self) -> Asked {
        self.asked.await.expect("the request was read")
    }
}

async fn read_request(stream: &mut TcpStream) -> Asked {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        let read = stream.read_buf(&mut bytes).await.expect("a request");
        assert!(read > 0, "the client hung up inside the head");
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a text head");
    let mut asked = Asked { head, body: bytes[end + 4..].to_vec() };
    let length = asked.header("content-length").map_or(0, |value| value.parse().expect("a length"));
    while asked.body.len() < length {
        let read = stream.read_buf(&mut asked.body).await.expect("a body");
        assert!(read > 0, "the client hung up inside the body");
    }
    asked
}
