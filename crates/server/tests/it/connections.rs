//! Clients that want more than their share of connections, of attempts at a key, or of answers that
//! cost something.

mod http2;
mod peers;
mod ready;
mod wire;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::Server;

/// Asks for something small, over HTTP/1.
async fn ask(stream: &mut TcpStream) {
    let request = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    // A connection that is refused may be closed already.
    let _ = stream.write_all(request).await;
}

/// Everything the server says until it hangs up.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is a way of hanging up, too.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a client with this address is answered.
async fn answer(server: &Server, address: &str) -> String {
    let mut stream = wire::connect_from(server, address).await;
    ask(&mut stream).await;
    rest(&mut stream).await
}
