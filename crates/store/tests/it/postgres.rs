//! A throw-away Postgres for tests, made from the machine's own programs.
//!
//! One cluster for each test binary, on a socket in a temporary directory; one database for each
//! caller. Needs nothing but std and tempfile, so that other crates' tests may include this file:
//! `#[path = "../../../store/tests/it/postgres.rs"] mod postgres;`, then `postgres::database()`.
//!
//! A machine without Postgres fails these tests. Skipping would leave half of the store untested
//! without anybody noticing.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// `nobody`: Postgres refuses to run as root.
const UNPRIVILEGED: u32 = 65534;

/// Makes a cluster and runs it as its child until its own standard input ends, which it does when the test
/// process goes away for any reason, because that process holds the other end. Then it stops the
/// cluster by its process id and removes the directory.
///
/// It must not die of SIGPIPE when that happens before it has said that the cluster is ready.
const GUARD: &str = r#"
    trap '' PIPE
    fail() { cat "$2/log"; rm -rf "$2"; exit 1; }
    "$1/initdb" -D "$2/data" -U postgres -A trust -E UTF8 --locale=C --no-sync \
        >"$2/log" 2>&1 || fail "$@"
    "$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c max_connections=300 \
        -c fsync=off -c synchronous_commit=off -c full_page_writes=off </dev/null >"$2/log" 2>&1 &
    server=$!
    until [ -S "$2/.s.PGSQL.5432" ] && "$1/pg_isready" -q -h "$2"; do
        kill -0 $server 2>/dev/null || fail "$@"
        sleep 0.05
    done
    echo ready 2>/dev/null
    exec >/dev/null
    read -r _
    kill -INT $server
    wait $server
    rm -rf "$2"
"#;

struct Cluster {
    bin: PathBuf,
    socket: PathBuf,
    user: Option<u32>,
    /// Kept for its open standard input; see `GUARD`.
    _guard: Child,
}

/// The address of a new, empty database of the shared cluster.
pub fn database() -> String {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let cluster = CLUSTER.get_or_init(Cluster::start);
    let name = format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut createdb = cluster.command("createdb");
    createdb.arg("-h").arg(&cluster.socket).args(["-U", "postgres", &name]);
    run(&mut createdb);
    // The socket's directory stands where the host would; its slashes must be encoded there.
    let host = cluster.socket.display().to_string().replace('/', "%2F");
    format!("postgres://postgres@{host}/{name}")
}

impl Cluster {
    fn start() -> Cluster {
        let bin = programs();
        let dir = tempfile::Builder::new().prefix("pg-").tempdir_in("/tmp").expect("a directory for Postgres").keep();
        let is_root = fs::metadata("/proc/self").expect("a process").uid() == 0;
        let user = is_root.then_some(UNPRIVILEGED);
        chown(&dir, user, user).expect("the directory is ours to give");

        let mut guard = Command::new("/bin/sh");
        guard.args(["-c", GUARD, "guard"]).arg(&bin).arg(&dir);
        as_user(&mut guard, user);
        // Out of the terminal's group: an interrupt meant for the tests must not stop the guard.
        guard.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = guard.spawn().expect("a shell");
        let mut said = String::new();
        guard.stdout.take().expect("a pipe").read_to_string(&mut said).expect("readable");
        assert_eq!(said, "ready\n", "Postgres did not start");
        Cluster { bin, socket: dir, user, _guard: guard }
    }

    fn command(&self, program: &str) -> Command {
        command(&self.bin, program, self.user)
    }
}

/// Where `initdb` and its companions are: on the PATH, else where Debian keeps them.
fn programs() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "tests use the machine's programs")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    debian.sort();
    let found = std::env::split_paths(&path).chain(debian.into_iter().rev()).find_map(|dir| {
        // A link on the PATH leads to where all the programs are.
        let initdb = fs::canonicalize(dir.join("initdb")).ok()?;
        let dir = initdb.parent()?;
        let complete = ["postgres", "createdb", "pg_isready"].iter().all(|name| dir.join(name).exists());
        complete.then(|| dir.to_owned())
    });
    found.expect(
        "These tests need Postgres's programs (initdb, postgres, createdb) on the PATH or in \
         /usr/lib/postgresql/*/bin. Install the package `postgresql`.",
    )
}

fn command(bin: &Path, program: &str, user: Option<u32>) -> Command {
    let mut command = Command::new(bin.join(program));
    as_user(&mut command, user);
    command
}

fn as_user(command: &mut Command, user: Option<u32>) {
    // The tests' own directory may be closed to that user.
    command.current_dir("/");
    if let Some(id) = user {
        command.uid(id).gid(id);
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("a program that starts");
    assert!(
        output.status.success(),
        "{command:?} failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}
