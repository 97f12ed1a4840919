//! A private Postgres for a fleet, so that a restart does not affect other tests.

use rustix::process::{Pid, Signal, kill_process};

use crate::postgres::cluster::Cluster;

pub(crate) struct FleetDatabase {
    cluster: Cluster,
    address: String,
}

impl FleetDatabase {
    pub(crate) fn start() -> FleetDatabase {
        let cluster = Cluster::lasting();
        let address = cluster.database("fleet");
        FleetDatabase { cluster, address }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// Copies the current database to another one, with `pg_dump` and `pg_restore`.
    pub(crate) fn copy(&self, name: &str) -> String {
        self.cluster.copy("fleet", name)
    }

    /// Executes SQL statements directly.
    pub(crate) fn execute(&self, statements: &str) {
        self.cluster.query(statements, "fleet");
    }

    /// Closes every other connection, as a network failure would.
    pub(crate) fn disconnect_all(&self) {
        self.cluster.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
            "fleet",
        );
    }

    /// Crashes the server: its processes end at once without a shutdown, and it starts again.
    pub(crate) fn crash(&self) {
        let pid = i32::try_from(self.cluster.pid()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::QUIT).expect("a process of this test");
    }
}
