//! A skill that steals: what is missing, and what comes out, is looked for at the other end and not
//! in what it says.
//!
//! Marked secrets stand where a thief looks: in the environment of `skillbox` and in a file. A port
//! for connections and one for datagrams stand where it sends them. In a sandbox nothing arrives;
//! without one everything does, which shows that the thief can steal and the ports can hear.

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
/// Leads nowhere, and is another machine's on every machine. Only who has no network may call for
/// it.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// How long a caller may take to say all it has to say; it is far less.
const PATIENCE: Duration = Duration::from_secs(60);

fn thief() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/thief")
}

/// An address of this machine that is not loopback, if it has one. Nothing is sent to find out.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect((ELSEWHERE, 9)).ok()?;
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
        let mark = format!("canary-{}", uuid::Uuid::now_v7().simple());
        std::fs::create_dir(home.path().join(".ssh")).expect("a directory");
        std::fs::write(home.path().join(".ssh/id_canary"), format!("{mark}-file\n"))
            .expect("a file");
        let tcp = TcpListener::bind("0.0.0.0:0").expect("a port");
        let udp = UdpSocket::bind("0.0.0.0:0").expect("a port");
        let addresses =
            [Some(Ipv4Addr::LOCALHOST.into()), own_address()].into_iter().flatten().collect();
        Sinkhole { home, mark, tcp, udp, addresses }
    }

    fn variable(&self) -> (&'static str, String) {
        ("AWS_SECRET_ACCESS_KEY", format!("{}-variable", self.mark))
    }

    /// Where it is looked at, the thief also calls for a machine that is not there.
    fn arguments(&self, elsewhere: Option<IpAddr>) -> Vec<String> {
        let port =
            |address: std::io::Result<SocketAddr>| address.expect("an address").port().to_string();
        let file = self.home.path().join(".ssh/id_canary").display().to_string();
        let mut arguments = vec!["--mark".to_owned(), self.mark.clone(), "--file".to_owned(), file];
        arguments.extend(["--tcp".to_owned(), port(self.tcp.local_addr())]);
        arguments.extend(["--udp".to_owned(), port(self.udp.local_addr())]);
        let addresses = self.addresses.iter().copied().chain(elsewhere);
        arguments
            .extend(addresses.flat_map(|address| ["--address".to_owned(), address.to_string()]));
        arguments
    }

    /// Everything that arrives while `work` is done.
    fn heard_during(&self, work: impl FnOnce()) -> String {
        let (over, heard) = (AtomicBool::new(false), Mutex::new(String::new()));
        let hear = |bytes: &[u8]| {
            heard
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
                    // Looked at before the ports, so that what came before the end is heard.
                    let last = over.load(Ordering::SeqCst);
                    while let Ok((mut caller, _)) = self.tcp.accept() {
                        caller.set_read_timeout(Some(PATIENCE)).expect("a connection");
                        hear(&all_of(&mut caller));
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
    fn audit(&self, flags: &[&str], elsewhere: Option<IpAddr>) -> (Value, String) {
        let mut command = skillbox(self.home.path());
        let (name, value) = self.variable();
        command
            .env(name, value)
            .arg("audit")
            .arg(thief())
            .arg(SCRIPT)
            .args(flags)
            .arg("--")
            .args(self.arguments(elsewhere));
        let ended = ended(command).ok();
        (serde_json::from_str(&ended.stderr).expect("one record"), ended.stdout)
    }

    /// What the sandbox must have seen: a call by each way to every address that leads out.
    #[track_caller]
    fn assert_seen(&self, attempts: &Value, elsewhere: Option<IpAddr>) {
        let port = |address: std::io::Result<SocketAddr>| address.expect("an address").port();
        for address in
            self.addresses.iter().copied().filter(|address| !address.is_loopback()).chain(elsewhere)
        {
            let tcp = SocketAddr::new(address, port(self.tcp.local_addr())).to_string();
            let udp = SocketAddr::new(address, port(self.udp.local_addr())).to_string();
            for (call, to) in [("connect", &tcp), ("sendto", &udp)] {
                let seen = attempts
                    .as_array()
                    .is_some_and(|seen| seen.contains(&json!({"call": call, "to": to})));
                assert!(seen, "{call} {to} in {attempts}");
            }
        }
        assert!(
            !attempts.to_string().contains("127.0.0.1"),
            "its own loopback is no attempt: {attempts}"
        );
    }
}

/// What a caller says, until it hangs up or has said all of what it waits for an answer to.
fn all_of(caller: &mut impl Read) -> Vec<u8> {
    let (mut said, mut more) = (Vec::new(), [0; 4096]);
    while !is_whole(&said) {
        match caller.read(&mut more) {
            Ok(0) | Err(_) => break,
            Ok(count) => said.extend_from_slice(&more[..count]),
        }
    }
    said
}

/// Whether this is a request over HTTP with its body, or the first record of an encrypted
/// connection.
fn is_whole(said: &[u8]) -> bool {
    if let [0x16, _, _, high, low, record @ ..] = said {
        return record.len() >= usize::from(u16::from_be_bytes([*high, *low]));
    }
    let text = String::from_utf8_lossy(said).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    length.is_some_and(|length| body.len() >= length)
}

#[test]
fn a_thief_takes_nothing_out_of_a_sandbox_and_its_record_says_what_it_tried() {
    let sinkhole = Sinkhole::dig();
    let mut audited = None;
    let heard = sinkhole.heard_during(|| audited = Some(sinkhole.audit(&[], Some(ELSEWHERE))));
    assert_eq!(heard, "", "something came out");
    let (record, stdout) = audited.expect("a record");
    assert_eq!(stdout, "notes formatted\n");
    assert!(!record.to_string().contains(&sinkhole.mark), "{record}");
    sinkhole.assert_seen(&record["network_attempts"], Some(ELSEWHERE));
}

#[test]
fn the_same_thief_takes_everything_where_it_is_trusted() {
    let sinkhole = Sinkhole::dig();
    let mut audited = None;
    let heard =
        sinkhole.heard_during(|| audited = Some(sinkhole.audit(&["--trust-remote-code"], None)));
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
    let heard =
        sinkhole.heard_during(|| audited = Some(sinkhole.audit(&["--allow-network"], None)));
    assert!(heard.contains(&format!("{} found nothing, and gets out", sinkhole.mark)), "{heard}");
    assert!(!heard.contains("-file") && !heard.contains("-variable"), "{heard}");
    let (record, _) = audited.expect("a record");
    assert_eq!(record["isolation"]["network"], "host");
    sinkhole.assert_seen(&record["network_attempts"], None);
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
        command.args(sinkhole.arguments(Some(ELSEWHERE)));
        answer = Some(ended(command).ok().json());
    });
    assert_eq!(heard, "", "something came out");
    let answer = answer.expect("an answer");
    assert_eq!(answer["stdout"], "notes formatted\n");
    sinkhole.assert_seen(&answer["network_attempts"], Some(ELSEWHERE));
    // Also in what is stored.
    let id = answer["execution_id"].as_str().expect("an id");
    sinkhole.assert_seen(&server.json(&["exec", "get", id])["network_attempts"], Some(ELSEWHERE));
}
