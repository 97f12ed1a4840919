//! HTTP/2 frame by frame, as no honest client would send them. The headers are literals, so that no
//! state is needed.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::Server;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Keeps a broken build from hanging; no test depends on how long anything takes.
const BOUND: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// A client that does only what it is told, beside acknowledging settings and pings.
pub(super) struct Client {
    socket: TcpStream,
    next_stream: u32,
}

impl Client {
    pub(super) async fn connect(server: &Server) -> Client {
        Client::connect_from(server, "127.0.0.1", &[]).await
    }

    /// A client that grants each response so many bytes.
    pub(super) async fn with_window(server: &Server, window: u32) -> Client {
        // SETTINGS_INITIAL_WINDOW_SIZE
        let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
        Client::connect_from(server, "127.0.0.1", &setting).await
    }

    async fn connect_from(server: &Server, address: &str, settings: &[u8]) -> Client {
        let mut client = Client { socket: connect_from(server, address).await, next_stream: 1 };
        client.socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        client.send(SETTINGS, 0, 0, settings).await.unwrap();
        client
    }

    pub(super) async fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> std::io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.socket.write_all(&frame).await
    }

    /// Begins a request; `flags` says whether its headers and its body end here.
    pub(super) async fn request(
        &mut self,
        method: &str,
        path: &str,
        flags: u8,
    ) -> std::io::Result<u32> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let fields =
            [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x")];
        let block: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
        self.send(HEADERS, flags, stream, &block).await?;
        Ok(stream)
    }

    pub(super) async fn get(&mut self, path: &str) -> std::io::Result<u32> {
        self.request("GET", path, END_STREAM | END_HEADERS).await
    }

    pub(super) async fn grant(&mut self, stream: u32, bytes: u32) {
        self.send(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()).await.unwrap();
    }

    /// The next frame; `None` when the server has closed the connection. Settings and pings are
    /// acknowledged.
    pub(super) async fn frame(&mut self) -> Option<Frame> {
        let frame = tokio::time::timeout(BOUND, self.read())
            .await
            .expect("neither a frame nor an end came")?;
        if matches!(frame.kind, SETTINGS | PING) && frame.flags & ACK == 0 {
            let payload = if frame.kind == PING { &frame.payload[..] } else { &[] };
            // The server may have closed the connection behind it.
            let _ = self.send(frame.kind, ACK, 0, payload).await;
        }
        Some(frame)
    }

    async fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.socket.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Frames until one of this kind on this stream.
    pub(super) async fn until(&mut self, kind: u8, stream: u32) -> Option<Frame> {
        loop {
            let frame = self.frame().await?;
            if frame.kind == kind && frame.stream == stream {
                return Some(frame);
            }
        }
    }

    /// The body of a response to its end; `None` when it was cut off.
    pub(super) async fn body(&mut self, stream: u32) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let frame = self.frame().await?;
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                DATA => body.extend(&frame.payload),
                RST_STREAM => return None,
                _ => {}
            }
            if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
                return Some(body);
            }
        }
    }

    /// Sends a ping and waits for its answer: everything sent before has been read. `None` when the
    /// connection is closed.
    pub(super) async fn sync(&mut self) -> Option<()> {
        self.send(PING, 0, 0, b"marathon").await.ok()?;
        loop {
            let frame = self.frame().await?;
            if frame.kind == GOAWAY {
                return None;
            }
            if frame.kind == PING && frame.flags & ACK != 0 && frame.payload == b"marathon" {
                return Some(());
            }
        }
    }

    /// Answers pings until the server closes the connection.
    pub(super) async fn until_closed(mut self) {
        while self.frame().await.is_some() {}
    }
}

/// A connection from one of the addresses of this machine: all of 127.0.0.0/8 are.
pub(super) async fn connect_from(server: &Server, address: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
    socket.connect(server.addr).await.unwrap()
}

/// A header field without indexing and without Huffman coding.
pub(super) fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| {
        assert!(text.len() < 127, "a length of one byte");
        [&[text.len() as u8], text.as_bytes()].concat()
    };
    [vec![0], text(name), text(value)].concat()
}
