//! A Postgres of a fleet's own, so that it can be restarted without harm to other tests.

use rustix::process::{Pid, Signal, kill_process};

use crate::postgres::cluster::Cluster;

pub struct Database {
    cluster: Cluster,
    address: String,
}

impl Database {
    pub fn start() -> Database {
        let cluster = Cluster::lasting();
        let address = cluster.database("fleet");
        Database { cluster, address }
    }

    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// A database as it was at this moment, by `pg_dump` and `pg_restore`, beside the original.
    pub fn copy(&self, name: &str) -> String {
        self.cluster.copy("fleet", name)
    }

    /// Says something to the database that no server says.
    pub fn execute(&self, statements: &str) {
        self.cluster.query(statements, "fleet");
    }

    /// Ends every connection but our own, as a failing network would.
    pub fn cut(&self) {
        self.cluster.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
            "fleet",
        );
    }

    /// The processes of the server end at once, without a word to anybody, and it starts again.
    pub fn crash(&self) {
        let pid = i32::try_from(self.cluster.pid()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::QUIT).expect("it is ours to end");
    }
}
