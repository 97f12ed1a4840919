//! A temporary Postgres cluster for tests, from the installed programs.
//!
//! One cluster for each test binary, on a socket in a temporary directory; one database for each
//! caller. Needs nothing but std and tempfile, so that other crates' tests may include this file:
//! `#[path = "../../../store/tests/it/postgres.rs"] mod postgres;`, then `postgres::database()`.
//!
//! A machine without Postgres fails these tests. Skipping would leave half of the store untested
//! unnoticed.

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

/// Creates a cluster and runs it until its own standard input ends. The test process holds the other
/// end, so that happens when it ends for any reason. Then the script stops the cluster by its
/// process id and removes the directory. A server that ends earlier is restarted.
///
/// It must not die of SIGPIPE when that happens before it has reported that the cluster is ready.
const GUARD: &str = r#"
    trap '' PIPE
    fail() { cat "$2/log"; rm -rf "$2"; exit 1; }
    "$1/initdb" -D "$2/data" -U postgres -A trust -E UTF8 --locale=C --no-sync \
        >"$2/log" 2>&1 || fail "$@"
    until [ -e "$2/stop" ]; do
        "$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c max_connections=300 \
            -c fsync=off -c synchronous_commit="$3" -c full_page_writes=off
    done </dev/null >>"$2/log" 2>&1 &
    server=$!
    tries=600
    until [ -S "$2/.s.PGSQL.5432" ] && "$1/pg_isready" -q -h "$2"; do
        tries=$((tries - 1))
        if [ $tries = 0 ]; then touch "$2/stop"; fail "$@"; fi
        sleep 0.05
    done
    echo ready 2>/dev/null
    exec >/dev/null
    read -r _
    touch "$2/stop"
    kill -INT "$(head -n 1 "$2/data/postmaster.pid")"
    wait $server
    rm -rf "$2"
"#;

pub(crate) struct Cluster {
    bin: PathBuf,
    socket: PathBuf,
    user: Option<u32>,
    /// Kept for its open standard input; see `GUARD`.
    _guard: Child,
}

static CLUSTER: OnceLock<Cluster> = OnceLock::new();

/// The address of a new, empty database of the shared cluster.
pub(crate) fn database() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    // This cluster is never restarted, so its commits need not be flushed.
    let cluster = CLUSTER.get_or_init(|| Cluster::start("off"));
    cluster.database(&format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed)))
}

/// Ends every connection to this database that listens for notifications.
#[allow(dead_code, reason = "not every crate that includes this file cuts connections")]
pub(crate) fn cut_listeners(dsn: &str) {
    cut(dsn, "application_name = 'skillbox-listener'");
}

/// Ends every connection to this database, whatever it is doing, as a restart would.
#[allow(dead_code, reason = "not every crate that includes this file cuts connections")]
pub(crate) fn cut_connections(dsn: &str) {
    cut(dsn, "pid <> pg_backend_pid()");
}

fn cut(dsn: &str, which: &str) {
    let cluster = CLUSTER.get().expect("a cluster");
    let database = dsn.rsplit('/').next().expect("a database's name");
    let all =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()";
    cluster.query(&format!("{all} AND {which}"), database);
}

/// Moves the clock of this database ahead by some hours for new connections: a function of the same
/// name shadows the real one.
#[allow(dead_code, reason = "not every crate that includes this file changes clocks")]
pub(crate) fn set_clock(dsn: &str, hours: i32) {
    let cluster = CLUSTER.get().expect("a cluster");
    let database = dsn.rsplit('/').next().expect("a database's name");
    cluster.query(
        &format!(
            "CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS \
             'SELECT pg_catalog.statement_timestamp() + interval ''{hours} hours'''; \
             ALTER DATABASE {database} SET search_path = public, pg_catalog"
        ),
        database,
    );
}

#[allow(dead_code, reason = "each test binary that includes this file uses a part of it")]
impl Cluster {
    /// A durable cluster: its commits survive a kill of the server, which is then restarted.
    pub(crate) fn lasting() -> Cluster {
        Cluster::start("on")
    }

    /// The address of a new, empty database.
    pub(crate) fn database(&self, name: &str) -> String {
        let mut createdb = self.command("createdb");
        createdb.arg("-h").arg(&self.socket).args(["-U", "postgres", name]);
        run(&mut createdb);
        // The directory of the socket takes the place of the host; its slashes must be encoded.
        let host = self.socket.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{host}/{name}")
    }

    /// Runs a statement as the superuser.
    pub(crate) fn query(&self, sql: &str, database: &str) {
        let mut psql = self.command("psql");
        psql.arg("-h").arg(&self.socket).args(["-U", "postgres", "-X", "-q", "-c", sql, database]);
        run(&mut psql);
    }

    /// A copy of a database, made with the standard backup programs while the original is in use.
    pub(crate) fn copy(&self, from: &str, to: &str) -> String {
        let backup = self.socket.join(format!("{to}.dump"));
        let mut dump = self.command("pg_dump");
        run(dump
            .arg("-h")
            .arg(&self.socket)
            .args(["-U", "postgres", "-Fc", "-f"])
            .arg(&backup)
            .arg(from));
        let address = self.database(to);
        let mut restore = self.command("pg_restore");
        let restore = restore
            .arg("-h")
            .arg(&self.socket)
            .args(["-U", "postgres", "--exit-on-error", "-d", to]);
        run(restore.arg(&backup));
        address
    }

    /// The first process of its server.
    pub(crate) fn pid(&self) -> u32 {
        let file = fs::read_to_string(self.socket.join("data/postmaster.pid"))
            .expect("a server that runs");
        file.lines().next().and_then(|line| line.parse().ok()).expect("a pid")
    }

    fn start(synchronous_commit: &str) -> Cluster {
        let bin = programs();
        let dir = tempfile::Builder::new()
            .prefix("pg-")
            .tempdir_in("/tmp")
            .expect("a directory for Postgres")
            .keep();
        let is_root = fs::metadata("/proc/self").expect("a process").uid() == 0;
        let user = is_root.then_some(UNPRIVILEGED);
        chown(&dir, user, user).expect("the directory is ours to give");

        let mut guard = Command::new("/bin/sh");
        guard.args(["-c", GUARD, "guard"]).arg(&bin).arg(&dir).arg(synchronous_commit);
        as_user(&mut guard, user);
        // In its own process group: an interrupt of the tests must not stop the guard.
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

/// The directory of `initdb` and the other programs: from the PATH, else that of Debian.
fn programs() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "tests use the machine's programs")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    debian.sort();
    let found = std::env::split_paths(&path).chain(debian.into_iter().rev()).find_map(|dir| {
        // A link on the PATH points to the directory with all programs.
        let initdb = fs::canonicalize(dir.join("initdb")).ok()?;
        let dir = initdb.parent()?;
        let complete =
            ["postgres", "createdb", "pg_isready"].iter().all(|name| dir.join(name).exists());
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
    // That user may have no access to the directory of the tests.
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
