//! `skillbox docker-proxy` as a process: it listens, refuses requests, logs that, and stops on a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{clean_command, run_command, skillbox};

/// A process that is killed at the end of the test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(home: &Path) -> Proxy {
    let mut command = clean_command(home);
    command.args(["-o", "json", "docker-proxy", "--listen"]).arg(address(home, "proxy"));
    command.arg("--engine").arg(address(home, "engine"));
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.contains("proxy.sock"), "{line}");
    Proxy(child)
}

fn address(home: &Path, name: &str) -> String {
    format!("unix://{}/{name}.sock", home.display())
}

/// A fake engine that only responds to pings.
fn engine(home: &Path) {
    let listener = UnixListener::bind(home.join("engine.sock")).expect("a socket");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK");
        }
    });
}

fn ask(home: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(home.join("proxy.sock")).expect("the proxy");
    stream
        .write_all(format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").as_bytes())
        .expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_proxy_forwards_to_an_engine_and_stops_on_a_signal() {
    let home = tempfile::tempdir().expect("a directory");
    let check = || {
        let mut command = skillbox(home.path());
        command.args(["docker-proxy", "--check", "--listen", &address(home.path(), "proxy")]);
        run_command(command)
    };
    assert!(check().failed(2).stderr.contains("cannot be reached"));
    let mut proxy = start(home.path());
    assert!(check().failed(2).stderr.contains("502"), "the proxy is there, the engine is not");
    engine(home.path());
    check().ok();
    let refused = ask(home.path(), "POST /v1.44/containers/x/exec");
    assert!(
        refused.starts_with("HTTP/1.1 403") && refused.contains("does not allow POST"),
        "{refused}"
    );

    kill_process(Pid::from_child(&proxy.0), Signal::TERM).expect("it is ours to end");
    let mut log = String::new();
    proxy.0.stderr.take().expect("a pipe").read_to_string(&mut log).expect("a log");
    assert!(proxy.0.wait().expect("an end").success());
    assert!(log.contains("refused") && log.contains("/containers/x/exec"), "{log}");
    assert!(!home.path().join("proxy.sock").exists());
}

#[test]
fn a_bad_address_gets_advice_on_addresses() {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = skillbox(home.path());
    command.args(["docker-proxy", "--listen", "2375"]);
    assert!(run_command(command).failed(2).stderr.contains("tcp://HOST:PORT"));
}
