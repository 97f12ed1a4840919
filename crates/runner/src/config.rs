//! The configuration of a runner: slots, leases, intervals, and the limits of runs, which no skill
//! can widen. Defaults of settings are not here but in the server's table of settings.

use std::sync::Arc;
use std::time::Duration;

use sandbox::OutputLimits;
use skill::signature::SecretKey;

use crate::EnvKey;

/// How this process takes part in running executions.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// The id of this process instance, in leases and on its sandboxes; never reused.
    pub owner: String,
    /// Executions that run at once in this process; without a launcher there are none.
    pub slots: usize,
    /// Callers that may wait for an execution at once; further ones are rejected. One tenant alone
    /// gets half.
    pub max_waiting: usize,
    /// A worker without a heartbeat for this long loses its executions.
    pub lease: Duration,
    /// Attempts before an execution is failed as lost. There is a second one only if no job was
    /// sent, or if the skill is idempotent.
    pub max_attempts: i32,
    /// How often an idle worker checks the queue without a notification.
    pub queue_tick: Duration,
    /// How often the reaper looks for expired leases and for sandboxes of dead owners.
    pub reap_tick: Duration,
    /// How long a successful run or probe proves that the sandbox works. After that readiness starts
    /// a probe.
    pub probe_every: Duration,
    /// How long ended executions are kept.
    pub retention: Retention,
    /// How often one of the servers deletes executions past their retention.
    pub retention_tick: Duration,
    /// True when no other process can be using this store (embedded mode holds a lock on its data
    /// directory): at start every other owner's lease is then known to be dead.
    pub exclusive_store: bool,
    /// Whether this process only reads archives of skills: other servers remove those of deleted
    /// skills.
    pub archives_read_only: bool,
    pub policy: RunPolicy,
    /// Signs a receipt for each execution that is recorded here.
    pub receipt_key: Option<Arc<SecretKey>>,
    /// Encrypts the `env` of queued executions. All processes that share a queue need the same key.
    pub env_key: EnvKey,
    /// Where this process kills or stops itself, in crash tests.
    #[cfg(debug_assertions)]
    pub failpoint: Option<crate::Failpoint>,
}

impl RunnerConfig {
    /// The values that have no default in the table of settings, and fixed ones for the rest.
    pub fn new(
        owner: impl Into<String>,
        slots: usize,
        lease: Duration,
        policy: RunPolicy,
    ) -> RunnerConfig {
        RunnerConfig {
            owner: owner.into(),
            slots,
            max_waiting: 2048,
            lease,
            max_attempts: 3,
            queue_tick: Duration::from_secs(1),
            reap_tick: Duration::from_secs(5),
            probe_every: Duration::from_secs(10),
            retention: Retention::default(),
            retention_tick: Duration::from_secs(60),
            exclusive_store: false,
            archives_read_only: false,
            policy,
            receipt_key: None,
            env_key: EnvKey::random(),
            #[cfg(debug_assertions)]
            failpoint: None,
        }
    }
}

/// How long after their end executions are kept, and before that their logs and artifacts. `None`
/// is for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    pub executions: Option<Duration>,
    pub logs: Option<Duration>,
    pub artifacts: Option<Duration>,
}

/// The operator's limits of runs. Neither a skill nor a caller can exceed the maxima.
#[derive(Debug, Clone)]
pub struct RunPolicy {
    pub default_timeout: Duration,
    pub max_timeout: Duration,
    pub default_memory_bytes: u64,
    pub max_memory_bytes: u64,
    pub default_cpu_millis: u32,
    pub max_cpu_millis: u32,
    /// Processes and threads together.
    pub pids: u32,
    pub disk_inodes: u64,
    pub output_limits: OutputLimits,
    /// Images that a skill may name. `None` where the backend uses no images and ignores `image`.
    pub image_allowlist: Option<Vec<String>>,
}

impl RunPolicy {
    /// Processes and threads of a run. No setting: Node alone starts about eleven.
    pub const PIDS: u32 = 64;
    /// Files and directories on the disk of a run. No setting.
    pub const DISK_INODES: u64 = 16_384;
}
