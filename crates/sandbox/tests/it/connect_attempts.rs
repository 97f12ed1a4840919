//! The guest reports a script's attempts to connect to other machines.

use language::Language;
use sandbox::{ConnectAttempt, ConnectCall, Outcome};

use crate::support::{Backend, job, on_every_backend, run};

on_every_backend! {
    connect_attempts_are_reported_and_blocked,
    flood_of_connect_attempts_is_truncated_and_ends,
}

/// Addresses of the documentation blocks, which are not routed.
const REACHES: &str = r#"
import socket, subprocess, sys, threading
def tried(kind, family, act):
    with socket.socket(family, kind) as s:
        s.settimeout(0.2)
        try:
            act(s)
            print("led somewhere")
        except OSError as error:
            pass
for _ in range(3):
    tried(socket.SOCK_STREAM, socket.AF_INET, lambda s: s.connect(("203.0.113.7", 443)))
tried(socket.SOCK_DGRAM, socket.AF_INET, lambda s: s.sendto(b"x", ("198.51.100.1", 53)))
tried(socket.SOCK_STREAM, socket.AF_INET6, lambda s: s.connect(("2001:db8::1", 22)))
child = 'import socket; socket.socket().connect_ex(("192.0.2.9", 80))'
subprocess.run([sys.executable, "-c", child])
# Its own loopback is nobody's business, and works as ever.
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True).start()
print(socket.create_connection(server.getsockname()).recv(5).decode())
a, b = socket.socketpair()
a.sendall(b"pair")
print(b.recv(4).decode())
"#;

/// In a pod, whose network only the cluster could block, no internet socket can be created.
const NO_SOCKET: &str = r#"
import socket
for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            socket.socket(family, kind)
            print("a socket")
        except OSError:
            pass
a, b = socket.socketpair()
a.sendall(b"pair")
print(b.recv(4).decode())
"#;

async fn connect_attempts_are_reported_and_blocked(backend: Backend) {
    if backend == Backend::Pod {
        let (ran, kept) = run(backend, Language::Python, &job(Language::Python, NO_SOCKET)).await;
        assert_eq!((kept.text().as_str(), ran.connect_attempts), ("pair\n", None));
        return;
    }
    let (ran, kept) = run(backend, Language::Python, &job(Language::Python, REACHES)).await;
    assert_eq!(
        (ran.outcome, ran.exit_code, kept.text().as_str()),
        (Outcome::Exited, Some(0), "hello\npair\n")
    );
    let expected = [
        (ConnectCall::Connect, "203.0.113.7:443"),
        (ConnectCall::SendTo, "198.51.100.1:53"),
        (ConnectCall::Connect, "[2001:db8::1]:22"),
        (ConnectCall::Connect, "192.0.2.9:80"),
    ];
    let expected = expected.map(|(call, to)| ConnectAttempt { call, to: to.parse().unwrap() });
    match backend {
        Backend::Native | Backend::Runc => {
            assert_eq!(ran.connect_attempts.as_deref(), Some(expected.as_slice()))
        }
        // Its kernel does not support notifications, so nothing is reported.
        Backend::Runsc | Backend::Pod => assert_eq!(ran.connect_attempts, None),
    }
}

/// More attempts than are reported, from many threads at once; all of them return.
const FLOOD: &str = r#"
import socket, threading
def knock(n):
    for port in range(1, 51):
        socket.socket().connect_ex((f"203.0.113.{n}", port))
threads = [threading.Thread(target=knock, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
"#;

async fn flood_of_connect_attempts_is_truncated_and_ends(backend: Backend) {
    let (ran, kept) = run(backend, Language::Python, &job(Language::Python, FLOOD)).await;
    if backend == Backend::Pod {
        // No socket can be created, so each thread gets an error.
        assert!(
            ran.outcome == Outcome::Exited
                && kept.text().ends_with("done\n")
                && ran.connect_attempts.is_none()
        );
        return;
    }
    assert_eq!((ran.outcome, kept.text().as_str()), (Outcome::Exited, "done\n"));
    if backend != Backend::Runsc {
        assert_eq!(ran.connect_attempts.map(|attempts| attempts.len()), Some(64));
    }
}
