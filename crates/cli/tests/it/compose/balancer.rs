//! The balancer of `docker-compose.yml`: nginx with its file, where only addresses are changed.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::engine::{repository, variable};

/// Dropped, it is told to end.
pub(super) struct Balancer {
    /// Where the API is.
    pub api: String,
    /// Where signed downloads are.
    pub objects: String,
    child: Child,
}

impl Balancer {
    /// nginx as scripts/test-engine.sh unpacked it. None without, and then it says so.
    pub(super) fn program(what: &str) -> Option<PathBuf> {
        let directory = variable("SKILLBOX_TEST_IMAGES").unwrap_or_default();
        let program = Path::new(&directory).join("nginx/usr/sbin/nginx");
        if !program.exists() {
            println!("NEEDS ENGINE: {what}: no nginx at `{}`", program.display());
        }
        program.exists().then_some(program)
    }

    pub(super) fn start(
        program: &Path,
        ports: [u16; 2],
        replicas: &[String; 2],
        objects: &str,
        home: &Path,
    ) -> Self {
        let address =
            |url: &str| url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let text = fs::read_to_string(repository().join("deploy/docker/nginx.conf"))
            .expect("its configuration");
        let text = text
            .replace("listen 8080;", &format!("listen 127.0.0.1:{};", ports[0]))
            .replace("listen 9000;", &format!("listen 127.0.0.1:{};", ports[1]))
            .replace("server api-1:8080 ", &format!("server {} ", address(&replicas[0])))
            .replace("server api-2:8080 ", &format!("server {} ", address(&replicas[1])))
            .replace("http://objects:9000", &format!("http://{}", address(objects)))
            .replace(" /tmp/", &format!(" {}/", home.display()));
        let file = home.join("nginx.conf");
        fs::write(&file, text).expect("a file");
        let child = Command::new(program)
            .arg("-c")
            .arg(&file)
            // In the foreground, as in its image; the user it would change to need not exist here.
            .args(["-g", "daemon off; user root;"])
            .stdin(Stdio::null())
            .spawn()
            .expect("nginx starts");
        let [api, objects] = ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut balancer = Self { api, objects, child };
        balancer.wait_for(ports[0]);
        balancer
    }

    fn wait_for(&mut self, port: u16) {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = self.child.try_wait().expect("its state");
            assert!(
                ended.is_none() && start.elapsed() < Duration::from_secs(30),
                "nginx does not listen: {ended:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let _ = self.child.wait();
    }
}
