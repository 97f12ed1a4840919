//! What the operator decides: how many runs at once, how long leases last, and the limits no skill
//! can widen.

use std::sync::Arc;
use std::time::Duration;

use sandbox::OutputLimits;
use skill::signature::SecretKey;

use crate::EnvKey;

/// How this process takes part in running things.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// Names this process instance in leases and on what its launcher made; never reused.
    pub owner: String,
    /// Executions that run at once here; without a launcher there are none.
    pub slots: usize,
    /// Callers that may wait for an end at once before new ones are told to come back. One tenant
    /// alone gets half.
    pub max_waiting: usize,
    /// A run whose worker is silent for this long is taken away from it.
    pub lease: Duration,
    /// How often an execution is taken up before it is given up as lost. Again at all only when it
    /// never reached a guest, or when its skill says that it is idempotent.
    pub max_attempts: i32,
    /// How often an idle worker looks for queued executions that nobody announced.
    pub queue_tick: Duration,
    /// How often expired leases, and sandboxes that a dead owner left, are looked for.
    pub reap_tick: Duration,
    /// How long it is believed that the sandbox works without a run that shows it. Then readiness
    /// starts one to see.
    pub probe_every: Duration,
    /// How long what has ended is kept.
    pub retention: Retention,
    /// How often one of the servers looks for what may be forgotten.
    pub retention_tick: Duration,
    /// True when no other process can be using this store (embedded mode holds a lock on its data
    /// directory): at start every other owner's lease is then known to be dead.
    pub exclusive_store: bool,
    /// Whether archives of skills are only read here: other servers remove those that belong to no
    /// skill any more.
    pub archives_read_only: bool,
    pub policy: RunPolicy,
    /// Signs a receipt for each execution that is recorded here.
    pub receipt_key: Option<Arc<SecretKey>>,
    /// Encrypts `env` of executions that wait. All processes that share a queue need the same.
    pub env_key: EnvKey,
    /// Where this process is to die or to stall, in tests of crashes.
    #[cfg(debug_assertions)]
    pub failpoint: Option<crate::Failpoint>,
}

impl RunnerConfig {
    pub fn new(owner: impl Into<String>) -> RunnerConfig {
        RunnerConfig {
            owner: owner.into(),
            slots: std::thread::available_parallelism().map_or(4, |cores| cores.get() * 2),
            max_waiting: 2048,
            lease: Duration::from_secs(30),
            max_attempts: 3,
            queue_tick: Duration::from_secs(1),
            reap_tick: Duration::from_secs(5),
            probe_every: Duration::from_secs(10),
            retention: Retention::default(),
            retention_tick: Duration::from_secs(60),
            exclusive_store: false,
            archives_read_only: false,
            policy: RunPolicy::default(),
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

/// The server's limits. Nothing a skill or a caller says can go beyond the maxima.
#[derive(Debug, Clone)]
pub struct RunPolicy {
    pub default_timeout: Duration,
    pub max_timeout: Duration,
    pub default_memory_bytes: u64,
    pub max_memory_bytes: u64,
    pub default_cpu_millis: u32,
    pub max_cpu_millis: u32,
    /// Processes and threads together: Node alone starts about eleven.
    pub pids: u32,
    pub disk_inodes: u64,
    pub output_limits: OutputLimits,
    /// Images a skill may name. `None` where the sandbox uses no images and `image` means nothing.
    pub image_allowlist: Option<Vec<String>>,
}

impl Default for RunPolicy {
    fn default() -> RunPolicy {
        RunPolicy {
            default_timeout: Duration::from_secs(120),
            max_timeout: Duration::from_secs(600),
            default_memory_bytes: 256 << 20,
            max_memory_bytes: 1 << 30,
            default_cpu_millis: 500,
            max_cpu_millis: 4000,
            pids: 64,
            disk_inodes: 16_384,
            output_limits: OutputLimits {
                log_bytes: 1 << 20,
                output_bytes: 1 << 20,
                artifact_bytes: 256 << 20,
                artifact_files: 1000,
            },
            image_allowlist: None,
        }
    }
}
