//! Addresses of the proxy and the engine, `tcp://host:port` or `unix:///path`, and the byte streams
//! between them.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// An address to listen on or to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `host:port`.
    Tcp(String),
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || format!("{text:?} is not an address: use tcp://HOST:PORT or unix:///PATH");
        if let Some(path) = text.strip_prefix("unix://") {
            return if path.starts_with('/') {
                Ok(Address::Unix(path.into()))
            } else {
                Err(invalid())
            };
        }
        let authority = text.strip_prefix("tcp://").ok_or_else(invalid)?.trim_end_matches('/');
        let (host, port) = authority.rsplit_once(':').ok_or_else(invalid)?;
        if host.is_empty() || authority.contains('/') || port.parse::<u16>().is_err() {
            return Err(invalid());
        }
        Ok(Address::Tcp(authority.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(authority) => write!(f, "tcp://{authority}"),
            Address::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// A byte stream of either kind.
pub(crate) type BoxedStream = Box<dyn ByteStream>;

pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

impl Address {
    pub async fn connect(&self) -> io::Result<BoxedStream> {
        Ok(match self {
            Address::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await?;
                set_tcp_options(&stream)?;
                Box::new(stream)
            }
            Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
        })
    }

    pub async fn listen(&self) -> io::Result<ProxyListener> {
        Ok(match self {
            Address::Tcp(authority) => ProxyListener::Tcp(TcpListener::bind(authority).await?),
            Address::Unix(path) => {
                remove_stale_socket(path).await?;
                let listener = UnixListener::bind(path)?;
                // A client that can connect can start sandboxes, so only the owner and the group of
                // this process may.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
                ProxyListener::Unix(listener, SocketFile(path.clone()))
            }
        })
    }
}

/// A peer whose machine has failed closes no connection. After this time without a response the
/// connection is closed, and with it the input of its container, which ends the container.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection is idle before keepalive probes are sent, and their number.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 3;

/// Sets the options of every TCP connection of ours.
fn set_tcp_options(stream: &TcpStream) -> io::Result<()> {
    // A guest's frames are small, and the peer waits for each of them.
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, (PEER_TIMEOUT - KEEPALIVE_IDLE) / KEEPALIVE_PROBES)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    // Keepalive probes are not sent while data is unacknowledged; this timeout covers that case.
    sockopt::set_tcp_user_timeout(stream, PEER_TIMEOUT.as_millis() as u32)?;
    Ok(())
}

/// Removes the socket that a killed proxy has left. A socket that still accepts connections belongs
/// to a running process, and any other file is not ours to remove.
async fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if found.file_type().is_socket() && UnixStream::connect(path).await.is_err() {
        return std::fs::remove_file(path);
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "the path is already in use"))
}

pub enum ProxyListener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// An accepted connection.
pub struct AcceptedConnection {
    pub stream: BoxedStream,
    /// Address or user of the peer, for the log.
    pub peer: String,
    /// The local address; none on a Unix socket.
    pub local: Option<IpAddr>,
}

/// The socket's path, which is removed with the listener.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may be removed already, and a drop cannot report an error.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl ProxyListener {
    pub async fn accept(&self) -> io::Result<AcceptedConnection> {
        match self {
            ProxyListener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                set_tcp_options(&stream)?;
                let local = Some(stream.local_addr()?.ip());
                Ok(AcceptedConnection { stream: Box::new(stream), peer: peer.to_string(), local })
            }
            ProxyListener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let peer = stream
                    .peer_cred()
                    .map_or_else(|_| "unix".to_owned(), |peer| format!("uid {}", peer.uid()));
                Ok(AcceptedConnection { stream: Box::new(stream), peer, local: None })
            }
        }
    }

    /// The bound address, with the port that the kernel chose for port 0.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match self {
            ProxyListener::Tcp(listener) => Address::Tcp(listener.local_addr()?.to_string()),
            ProxyListener::Unix(_, SocketFile(path)) => Address::Unix(path.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's timer on the one established connection between these ports: `02` is the
    /// keepalive timer.
    fn kernel_timer(from: u16, to: u16) -> Option<String> {
        let connections = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's list");
        connections.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let ends_with = |field: &str, port: u16| field.ends_with(&format!(":{port:04X}"));
            (ends_with(fields[1], from) && ends_with(fields[2], to))
                .then(|| fields[5][..2].to_owned())
        })
    }

    #[tokio::test]
    async fn both_ends_use_keepalive_to_detect_a_dead_peer() {
        let listener = Address::Tcp("127.0.0.1:0".into()).listen().await.expect("a port");
        let address = listener.address().expect("an address");
        let (_ours, accepted) = tokio::join!(address.connect(), listener.accept());
        let AcceptedConnection { peer, stream: _theirs, .. } = accepted.expect("a connection");
        let port = |text: &str| {
            text.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
        };
        let (here, there) = (port(&address.to_string()), port(&peer));
        assert_eq!(
            (kernel_timer(here, there).as_deref(), kernel_timer(there, here).as_deref()),
            (Some("02"), Some("02"))
        );
    }

    #[test]
    fn addresses_are_parsed_and_formatted() {
        for text in [
            "tcp://127.0.0.1:2375", "tcp://[::1]:0", "tcp://engine:2375",
            "unix:///var/run/docker.sock",
        ] {
            assert_eq!(text.parse::<Address>().expect("an address").to_string(), text);
        }
        assert_eq!("tcp://engine:1/".parse(), Ok(Address::Tcp("engine:1".into())));
        for text in [
            "", "tcp://", "tcp://engine", "tcp://:1", "tcp://e:99999", "tcp://e:1/x", "unix://x",
            "http://e:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
