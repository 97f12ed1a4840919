//! Where the proxy listens and where the engine is: `tcp://host:port` or `unix:///path`, and the
//! byte streams there.

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

/// A place to listen at or to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `host:port`.
    Tcp(String),
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is no address: give tcp://HOST:PORT or unix:///PATH");
        if let Some(path) = text.strip_prefix("unix://") {
            return if path.starts_with('/') {
                Ok(Address::Unix(path.into()))
            } else {
                Err(wrong())
            };
        }
        let place = text.strip_prefix("tcp://").ok_or_else(wrong)?.trim_end_matches('/');
        let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || place.contains('/') || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        Ok(Address::Tcp(place.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(place) => write!(f, "tcp://{place}"),
            Address::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// A byte stream of either kind.
pub type Stream = Box<dyn ByteStream>;

pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

impl Address {
    pub async fn connect(&self) -> io::Result<Stream> {
        Ok(match self {
            Address::Tcp(place) => {
                let stream = TcpStream::connect(place).await?;
                attend(&stream)?;
                Box::new(stream)
            }
            Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
        })
    }

    pub async fn listen(&self) -> io::Result<Listener> {
        Ok(match self {
            Address::Tcp(place) => Listener::Tcp(TcpListener::bind(place).await?),
            Address::Unix(path) => {
                remove_dead_socket(path).await?;
                let listener = UnixListener::bind(path)?;
                // Who may connect may start sandboxes: the owner and the group of this process,
                // nobody else.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
                Listener::Unix(listener, SocketFile(path.clone()))
            }
        })
    }
}

/// A peer whose machine is gone says nothing at all. After this long without a sign of life its
/// connection is over, and with it the input of its container, which ends the container.
const SILENT_FOR: Duration = Duration::from_secs(30);
/// How long a connection is quiet before its peer is asked for a sign of life, and how often it is
/// asked.
const QUIET_FOR: Duration = Duration::from_secs(15);
const ASKED: u32 = 3;

/// What every TCP connection of ours is set to.
fn attend(stream: &TcpStream) -> io::Result<()> {
    // Frames of a guest are small and somebody waits for each.
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, QUIET_FOR)?;
    sockopt::set_tcp_keepintvl(stream, (SILENT_FOR - QUIET_FOR) / ASKED)?;
    sockopt::set_tcp_keepcnt(stream, ASKED)?;
    // The same where something was sent that is never acknowledged.
    sockopt::set_tcp_user_timeout(stream, SILENT_FOR.as_millis() as u32)?;
    Ok(())
}

/// A killed proxy leaves its socket behind. One that still answers is somebody's, and anything else
/// is no socket.
async fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if found.file_type().is_socket() && UnixStream::connect(path).await.is_err() {
        return std::fs::remove_file(path);
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "something is there already"))
}

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// A connection that came in.
pub struct Accepted {
    pub stream: Stream,
    /// Who is at its other end, as far as that can be told.
    pub peer: String,
    /// Where it came in; none on a Unix socket.
    pub local: Option<IpAddr>,
}

/// The socket's name in the file system, which goes away with the listener.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may be gone already, and there is nobody left to tell.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    pub async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                attend(&stream)?;
                let local = Some(stream.local_addr()?.ip());
                Ok(Accepted { stream: Box::new(stream), peer: peer.to_string(), local })
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let peer = stream
                    .peer_cred()
                    .map_or_else(|_| "unix".to_owned(), |peer| format!("uid {}", peer.uid()));
                Ok(Accepted { stream: Box::new(stream), peer, local: None })
            }
        }
    }

    /// Where it really listens: port 0 has become a port.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Listener::Tcp(listener) => Address::Tcp(listener.local_addr()?.to_string()),
            Listener::Unix(_, SocketFile(path)) => Address::Unix(path.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel waits for on the one established connection between these ports: `02` is a
    /// sign of life.
    fn timer(from: u16, to: u16) -> Option<String> {
        let connections = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's list");
        connections.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let ends_with = |field: &str, port: u16| field.ends_with(&format!(":{port:04X}"));
            (ends_with(fields[1], from) && ends_with(fields[2], to))
                .then(|| fields[5][..2].to_owned())
        })
    }

    #[tokio::test]
    async fn both_ends_notice_a_peer_whose_machine_is_gone() {
        let listener = Address::Tcp("127.0.0.1:0".into()).listen().await.expect("a port");
        let address = listener.address().expect("an address");
        let (_ours, accepted) = tokio::join!(address.connect(), listener.accept());
        let Accepted { peer, stream: _theirs, .. } = accepted.expect("a connection");
        let port = |text: &str| {
            text.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
        };
        let (here, there) = (port(&address.to_string()), port(&peer));
        assert_eq!(
            (timer(here, there).as_deref(), timer(there, here).as_deref()),
            (Some("02"), Some("02"))
        );
    }

    #[test]
    fn addresses_are_read_and_written() {
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
