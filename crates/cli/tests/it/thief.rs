//! A skill that steals: what is missing, and what comes out, is looked for at the other end and not in what it says.
//!
//! Marked secrets stand where a thief looks: in the environment of `skillbox` and in a file. A port for connections and one
//! for datagrams stand where it sends them. In a sandbox nothing arrives; without one everything does, which shows
//! that the thief can steal and the ports can hear.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Server, ended, skillbox};

const SCRIPT: &str = "scripts/format.py";

fn thief() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/thief")
}

/// An address of this machine that is not loopback, if it has one. Nothing is sent to find out.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// Where stolen goods would arrive, and what is there to steal.
struct Sinkhole {
    home: TempDir,
    mark: String,
    tcp: TcpListener,
    udp: UdpSocket,
    /// Addresses that lead here from outside of a sandbox.
    addresses: Vec<IpAddr>,
}

impl Sinkhole {
    fn dig() -> Sinkhole {
        let home = tempfile::tempdir().expect("a directory");
        let mark = format!("canary-{}-{}", std::process::id(), home.path().display().to_string().len());
        std::fs::create_dir(home.path().join(".ssh")).expect("a directory");
        std::fs::write(home.path().join(".ssh/id_canary"), format!("{mark}-file\n")).expect("a file");
        let tcp = TcpListener::bind("0.0.0.0:0").expect("a port");
        let udp = UdpSocket::bind("0.0.0.0:0").expect("a port");
        let addresses = [Some(Ipv4Addr::LOCALHOST.into()), own_address()].into_iter().flatten().collect();
        Sinkhole { home, mark, tcp, udp, addresses }
    }

    fn variable(&self) -> (&'static str, String) {
        ("AWS_SECRET_ACCESS_KEY", format!("{}-variable", self.mark))
    }

    fn arguments(&self) -> Vec<String> {
        let port = |address: std::io::Result<SocketAddr>| address.expect("an address").port().to_string();
        let file = self.home.path().join(".ssh/id_canary").display().to_string();
        let mut arguments = vec!["--mark".to_owned(), self.mark.clone(), "--file".to_owned(), file];
        arguments.extend(["--tcp".to_owned(), port(self.tcp.local_addr())]);
        arguments.extend(["--udp".to_owned(), port(self.udp.local_addr())]);
        arguments.extend(self.addresses.iter().flat_map(|address| ["--address".to_owned(), address.to_string()]));
        arguments
    }

    /// Everything that arrives while `work` is done.
    fn heard_during(&self, work: impl FnOnce()) -> String {
        let (over, heard) = (AtomicBool::new(false), Mutex::new(String::new()));
        let hear =
            |bytes: &[u8]| heard.lock().expect("no panic").push_str(&format!("{}\n", String::from_utf8_lossy(bytes)));
        self.tcp.set_nonblocking(true).expect("a port");
        self.udp.set_read_timeout(Some(Duration::from_millis(20))).expect("a port");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut datagram = [0; 2048];
                loop {
                    // Looked at before the ports, so that what came before the end is heard.
                    let last = over.load(Ordering::SeqCst);
                    while let Ok((mut caller, _)) = self.tcp.accept() {
                        let mut said = [0; 65536];
                        caller.set_read_timeout(Some(Duration::from_millis(300))).expect("a connection");
                        let mut count = caller.read(&mut said).unwrap_or(0);
                        count += caller.read(&mut said[count..]).unwrap_or(0);
                        hear(&said[..count]);
                        hear(b"(somebody called)");
                    }
                    while let Ok((count, _)) = self.udp.recv_from(&mut datagram) {
                        hear(&datagram[..count]);
                    }
                    if last {
                        return;
                    }
                }
            });
            work();
            over.store(true, Ordering::SeqCst);
        });
        heard.into_inner().expect("no panic")
    }

    /// One audit of the thief; its record, and everything it printed.
    fn audit(&self, flags: &[&str]) -> (Value, String) {
        let mut command = skillbox(self.home.path());
        let (name, value) = self.variable();
        command.env(name, value).arg("audit").arg(thief()).arg(SCRIPT).args(flags).arg("--").args(self.arguments());
        let ended = ended(command).ok();
        (serde_json::from_str(&ended.stderr).expect("one record"), ended.stdout)
    }

    /// What the sandbox must have seen: a call by each way to the address that leads out.
    #[track_caller]
    fn assert_seen(&self, attempts: &Value) {
        let Some(address) = self.addresses.iter().find(|address| !address.is_loopback()) else { return };
        let port = |address: std::io::Result<SocketAddr>| address.expect("an address").port();
        let tcp = SocketAddr::new(*address, port(self.tcp.local_addr())).to_string();
        let udp = SocketAddr::new(*address, port(self.udp.local_addr())).to_string();
        let expected = [("connect", &tcp), ("sendto", &udp)];
        for (call, to) in expected {
            let seen = attempts.as_array().is_some_and(|seen| seen.contains(&json!({"call": call, "to": to})));
            assert!(seen, "{call} {to} in {attempts}");
        }
        assert!(!attempts.to_string().contains("127.0.0.1"), "its own loopback is no attempt: {attempts}");
    }
}

#[test]
fn a_thief_takes_nothing_out_of_a_sandbox_and_its_record_says_what_it_tried() {
    let sinkhole = Sinkhole::dig();
    let mut audited = None;
    let heard = sinkhole.heard_during(|| audited = Some(sinkhole.audit(&[])));
    assert_eq!(heard, "", "something came out");
    let (record, stdout) = audited.expect("a record");
    assert_eq!(stdout, "notes formatted\n");
    assert!(!record.to_string().contains(&sinkhole.mark), "{record}");
    sinkhole.assert_seen(&record["network_attempts"]);
}

#[test]
fn the_same_thief_takes_everything_where_it_is_trusted() {
    let sinkhole = Sinkhole::dig();
    let mut audited = None;
    let heard = sinkhole.heard_during(|| audited = Some(sinkhole.audit(&["--trust-remote-code"])));
    for stolen in ["-file", "-variable"] {
        assert!(heard.contains(&format!("{}{stolen}", sinkhole.mark)), "{stolen} in {heard}");
    }
    // By a question for a name as well, and by a handshake for an encrypted connection.
    assert!(heard.contains("\u{7}example"), "{heard}");
    assert!(heard.matches("(somebody called)").count() >= 3 * sinkhole.addresses.len(), "{heard}");
    let (record, _) = audited.expect("a record");
    assert_eq!((&record["trusted"], &record["sandbox"]), (&true.into(), &"none".into()));
    assert_eq!(record["network_attempts"], Value::Null, "nobody looked");
}

#[test]
fn with_an_open_network_it_gets_out_and_finds_nothing_to_take() {
    let sinkhole = Sinkhole::dig();
    let mut audited = None;
    let heard = sinkhole.heard_during(|| audited = Some(sinkhole.audit(&["--allow-network"])));
    assert!(heard.contains(&format!("{} found nothing, and gets out", sinkhole.mark)), "{heard}");
    assert!(!heard.contains("-file") && !heard.contains("-variable"), "{heard}");
    let (record, _) = audited.expect("a record");
    assert_eq!(record["isolation"]["network"], "host");
    sinkhole.assert_seen(&record["network_attempts"]);
}

#[test]
fn a_thief_on_a_server_takes_nothing_and_is_seen() {
    let sinkhole = Sinkhole::dig();
    let (name, value) = sinkhole.variable();
    let server = Server::with(&[(name, &value)]);
    server.run(&["skill", "push", &thief().display().to_string()]).ok();
    let mut answer = None;
    let heard = sinkhole.heard_during(|| {
        let mut command = server.command(&["-o", "json", "run", "thief", SCRIPT, "--"]);
        command.args(sinkhole.arguments());
        answer = Some(ended(command).ok().json());
    });
    assert_eq!(heard, "", "something came out");
    let answer = answer.expect("an answer");
    assert_eq!(answer["stdout"], "notes formatted\n");
    sinkhole.assert_seen(&answer["network_attempts"]);
    // Also in what is stored.
    let id = answer["execution_id"].as_str().expect("an id");
    sinkhole.assert_seen(&server.json(&["exec", "get", id])["network_attempts"]);
}
