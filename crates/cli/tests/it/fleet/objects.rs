//! A private S3 server for a fleet: SeaweedFS by `scripts/test-s3.sh` in its own directory, which tests
//! can kill and restart.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) struct ObjectStore {
    pub endpoint: String,
    pub access_key: String,
    pub secret_key: String,
    directory: TempDir,
}

impl ObjectStore {
    pub(crate) fn start() -> ObjectStore {
        let directory =
            tempfile::Builder::new().prefix("skillbox-s3-").tempdir().expect("a directory");
        let printed = script(directory.path(), "start");
        let value = |name: &str| {
            let line = printed
                .lines()
                .find_map(|line| line.strip_prefix(&format!("SKILLBOX_TEST_S3_{name}=")));
            line.unwrap_or_else(|| panic!("no {name} in {printed}")).to_owned()
        };
        ObjectStore {
            endpoint: value("ENDPOINT"),
            access_key: value("ACCESS_KEY"),
            secret_key: value("SECRET_KEY"),
            directory,
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&self) {
        let pid = std::fs::read_to_string(self.directory.path().join("s3/pid")).expect("its pid");
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::KILL).expect("a process of this test");
    }

    /// Lists all keys of a bucket with curl, independently of our own S3 client.
    pub(crate) fn list(&self, bucket: &str) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        loop {
            let after = keys.last().map_or_else(String::new, |last: &String| {
                format!("&start-after={}", percent_encode(last))
            });
            let output = Command::new("curl")
                .args([
                    "--silent", "--show-error", "--fail", "--max-time", "30", "--aws-sigv4",
                    "aws:amz:us-east-1:s3",
                ])
                .args(["--user", &format!("{}:{}", self.access_key, self.secret_key)])
                .arg(format!("{}/{bucket}?list-type=2{after}", self.endpoint))
                .output()
                .expect("curl runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let page = String::from_utf8(output.stdout).expect("UTF-8");
            let more = page.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
            keys.extend(more.map(|(key, _)| key.to_owned()));
            if page.contains("<IsTruncated>false</IsTruncated>") {
                return keys;
            }
        }
    }

    /// Restarts it on the same port with the same data.
    pub(crate) fn restart(&self) {
        script(self.directory.path(), "start");
    }
}

fn percent_encode(key: &str) -> String {
    url::form_urlencoded::byte_serialize(key.as_bytes()).collect()
}

impl Drop for ObjectStore {
    fn drop(&mut self) {
        script(self.directory.path(), "stop");
    }
}

fn script(directory: &Path, verb: &str) -> String {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(repository.join("scripts/test-s3.sh"))
        .arg(verb)
        .env("SKILLBOX_TEST_DIR", directory)
        .env("SKILLBOX_TEST_CACHE", cache())
        .output()
        .expect("the script runs");
    assert!(
        output.status.success(),
        "test-s3.sh {verb}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The cache of programs and images for all test servers of this user.
pub(super) fn cache() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    PathBuf::from(format!("/var/tmp/skillbox-test-{user}/cache"))
}
