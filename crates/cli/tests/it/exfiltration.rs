//! A skill that exfiltrates data. The tests check what arrives at the destination, not what the skill
//! prints.
//!
//! Marked secrets are placed where the skill searches: in the environment of `skillbox` and in a file.
//! It sends them to a TCP port and a UDP port of the test. From a sandbox nothing arrives. Without a
//! sandbox everything arrives, which proves that the skill can exfiltrate and the ports receive.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Server, run_command, skillbox};

const SCRIPT: &str = "scripts/format.py";
/// A documentation address (TEST-NET-1), which is never an address of this machine. Only scripts
/// without a network may try to connect to it.
const UNREACHABLE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Read timeout of a connection.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/exfiltration")
}

/// An address of this machine that is not loopback, if it has one. Connecting a UDP socket sends
/// nothing.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect((UNREACHABLE_ADDRESS, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// The ports to which the skill sends data, and the secrets that it searches for.
struct ExfiltrationTarget {
    home: TempDir,
    mark: String,
    tcp: TcpListener,
    udp: UdpSocket,
    /// Addresses of this machine from outside of a sandbox.
    addresses: Vec<IpAddr>,
}

impl ExfiltrationTarget {
    fn listen() -> ExfiltrationTarget {
        let home = tempfile::tempdir().expect("a directory");
        let mark = format!("canary-{}", uuid::Uuid::now_v7().simple());
        std::fs::create_dir(home.path().join(".ssh")).expect("a directory");
        std::fs::write(home.path().join(".ssh/id_canary"), format!("{mark}-file\n"))
            .expect("a file");
        let tcp = TcpListener::bind("0.0.0.0:0").expect("a port");
        let udp = UdpSocket::bind("0.0.0.0:0").expect("a port");
        let addresses =
            [Some(Ipv4Addr::LOCALHOST.into()), own_address()].into_iter().flatten().collect();
        ExfiltrationTarget { home, mark, tcp, udp, addresses }
    }

    fn variable(&self) -> (&'static str, String) {
        ("AWS_SECRET_ACCESS_KEY", format!("{}-variable", self.mark))
    }

    /// `unreachable` is one more destination, for runs whose connection attempts are recorded.
    fn arguments(&self, unreachable: Option<IpAddr>) -> Vec<String> {
        let port =
            |address: std::io::Result<SocketAddr>| address.expect("an address").port().to_string();
        let file = self.home.path().join(".ssh/id_canary").display().to_string();
        let mut arguments = vec!["--mark".to_owned(), self.mark.clone(), "--file".to_owned(), file];
        arguments.extend(["--tcp".to_owned(), port(self.tcp.local_addr())]);
        arguments.extend(["--udp".to_owned(), port(self.udp.local_addr())]);
        let addresses = self.addresses.iter().copied().chain(unreachable);
        arguments
            .extend(addresses.flat_map(|address| ["--address".to_owned(), address.to_string()]));
        arguments
    }

    /// Records everything that arrives during `work`.
    fn record_during(&self, work: impl FnOnce()) -> String {
        let (done, received) = (AtomicBool::new(false), Mutex::new(String::new()));
        let record = |bytes: &[u8]| {
            received
                .lock()
                .expect("no panic")
                .push_str(&format!("{}\n", String::from_utf8_lossy(bytes)))
        };
        self.tcp.set_nonblocking(true).expect("a port");
        self.udp.set_read_timeout(Some(Duration::from_millis(20))).expect("a port");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut datagram = [0; 2048];
                loop {
                    // Read before the ports, so that everything that arrived before the end is recorded.
                    let last = done.load(Ordering::SeqCst);
                    while let Ok((mut connection, _)) = self.tcp.accept() {
                        connection.set_read_timeout(Some(READ_TIMEOUT)).expect("a connection");
                        record(&read_request(&mut connection));
                        record(b"(connection)");
                    }
                    while let Ok((count, _)) = self.udp.recv_from(&mut datagram) {
                        record(&datagram[..count]);
                    }
                    if last {
                        return;
                    }
                }
            });
            work();
            done.store(true, Ordering::SeqCst);
        });
        received.into_inner().expect("no panic")
    }

    /// Runs the skill with `skillbox audit`. Returns the record and its output.
    fn audit(&self, flags: &[&str], unreachable: Option<IpAddr>) -> (Value, String) {
        let mut command = skillbox(self.home.path());
        let (name, value) = self.variable();
        command
            .env(name, value)
            .arg("audit")
            .arg(fixture())
            .arg(SCRIPT)
            .args(flags)
            .arg("--")
            .args(self.arguments(unreachable));
        let result = run_command(command).ok();
        (serde_json::from_str(&result.stderr).expect("one record"), result.stdout)
    }

    /// The record must contain a TCP and a UDP attempt to every address except loopback.
    #[track_caller]
    fn assert_attempts_recorded(&self, attempts: &Value, unreachable: Option<IpAddr>) {
        let port = |address: std::io::Result<SocketAddr>| address.expect("an address").port();
        for address in self
            .addresses
            .iter()
            .copied()
            .filter(|address| !address.is_loopback())
            .chain(unreachable)
        {
            let tcp = SocketAddr::new(address, port(self.tcp.local_addr())).to_string();
            let udp = SocketAddr::new(address, port(self.udp.local_addr())).to_string();
            for (call, to) in [("connect", &tcp), ("sendto", &udp)] {
                let recorded = attempts
                    .as_array()
                    .is_some_and(|attempts| attempts.contains(&json!({"call": call, "to": to})));
                assert!(recorded, "{call} {to} in {attempts}");
            }
        }
        assert!(
            !attempts.to_string().contains("127.0.0.1"),
            "connections to its own loopback are not recorded: {attempts}"
        );
    }
}

/// Reads a request, until the client closes the connection or the request is complete.
fn read_request(connection: &mut impl Read) -> Vec<u8> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    while !is_complete(&request) {
        match connection.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => request.extend_from_slice(&buffer[..count]),
        }
    }
    request
}

/// Whether this is an HTTP request with its complete body, or the first complete TLS record.
fn is_complete(request: &[u8]) -> bool {
    if let [0x16, _, _, high, low, record @ ..] = request {
        return record.len() >= usize::from(u16::from_be_bytes([*high, *low]));
    }
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    length.is_some_and(|length| body.len() >= length)
}

#[test]
fn a_sandbox_prevents_exfiltration_and_records_the_attempts() {
    let target = ExfiltrationTarget::listen();
    let mut audit = None;
    let received =
        target.record_during(|| audit = Some(target.audit(&[], Some(UNREACHABLE_ADDRESS))));
    assert_eq!(received, "", "data left the sandbox");
    let (record, stdout) = audit.expect("a record");
    assert_eq!(stdout, "notes formatted\n");
    assert!(!record.to_string().contains(&target.mark), "{record}");
    target.assert_attempts_recorded(&record["network_attempts"], Some(UNREACHABLE_ADDRESS));
}

#[test]
fn the_same_skill_exfiltrates_everything_without_a_sandbox() {
    let target = ExfiltrationTarget::listen();
    let mut audit = None;
    let received =
        target.record_during(|| audit = Some(target.audit(&["--trust-remote-code"], None)));
    for secret in ["-file", "-variable"] {
        assert!(received.contains(&format!("{}{secret}", target.mark)), "{secret} in {received}");
    }
    // Also through a DNS query and a TLS handshake.
    assert!(received.contains("\u{7}example"), "{received}");
    assert!(received.matches("(connection)").count() >= 3 * target.addresses.len(), "{received}");
    let (record, _) = audit.expect("a record");
    assert_eq!((&record["trusted"], &record["sandbox"]), (&true.into(), &"none".into()));
    assert_eq!(
        record["network_attempts"],
        Value::Null,
        "attempts are not observed without a sandbox"
    );
}

#[test]
fn with_an_open_network_the_skill_connects_but_finds_no_secret() {
    let target = ExfiltrationTarget::listen();
    let mut audit = None;
    let received = target.record_during(|| audit = Some(target.audit(&["--allow-network"], None)));
    assert!(
        received.contains(&format!("{} found nothing, and gets out", target.mark)),
        "{received}"
    );
    assert!(!received.contains("-file") && !received.contains("-variable"), "{received}");
    let (record, _) = audit.expect("a record");
    assert_eq!(record["isolation"]["network"], "host");
    target.assert_attempts_recorded(&record["network_attempts"], None);
}

#[test]
fn a_server_prevents_exfiltration_and_records_the_attempts() {
    let target = ExfiltrationTarget::listen();
    let (name, value) = target.variable();
    let server = Server::start_with(&[(name, &value)]);
    server.run(&["skill", "push", &fixture().display().to_string()]).ok();
    let mut execution = None;
    let received = target.record_during(|| {
        let mut command = server.command(&["-o", "json", "run", "exfiltration", SCRIPT, "--"]);
        command.args(target.arguments(Some(UNREACHABLE_ADDRESS)));
        execution = Some(run_command(command).ok().json());
    });
    assert_eq!(received, "", "data left the sandbox");
    let execution = execution.expect("an execution");
    assert_eq!(execution["stdout"], "notes formatted\n");
    target.assert_attempts_recorded(&execution["network_attempts"], Some(UNREACHABLE_ADDRESS));
    // The stored execution has them too.
    let id = execution["execution_id"].as_str().expect("an id");
    target.assert_attempts_recorded(
        &server.json(&["exec", "get", id])["network_attempts"],
        Some(UNREACHABLE_ADDRESS),
    );
}
