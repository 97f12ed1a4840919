//! The limits of runs, as the table of settings has them. Runs without a server use the same
//! defaults.

use runner::RunPolicy;
use sandbox::OutputLimits;

use super::parse::{cpu, duration, positive, size};
use super::reader::{SettingReader, check_order};
use super::{ConfigError, RawValues};

/// The limits of a run where nothing is configured, without an image allowlist.
pub fn default_run_policy() -> RunPolicy {
    read(&SettingReader(&RawValues::new()), None).expect("the defaults of the settings are valid")
}

pub(super) fn read(
    read: &SettingReader<'_>,
    image_allowlist: Option<Vec<String>>,
) -> Result<RunPolicy, ConfigError> {
    let policy = RunPolicy {
        default_timeout: read.get("default_timeout", duration)?,
        max_timeout: read.get("max_timeout", duration)?,
        default_memory_bytes: read.get("default_memory", size)?,
        max_memory_bytes: read.get("max_memory", size)?,
        default_cpu_millis: read.get("default_cpu", cpu)?,
        max_cpu_millis: read.get("max_cpu", cpu)?,
        pids: RunPolicy::PIDS,
        disk_inodes: RunPolicy::DISK_INODES,
        output_limits: OutputLimits {
            output_bytes: read.get("max_output_size", size)?,
            log_bytes: read.get("max_log_size", size)?,
            artifact_bytes: read.get("max_artifact_size", size)?,
            artifact_files: read.get("max_artifact_files", positive)?,
        },
        image_allowlist,
    };
    check_order("default_timeout", policy.default_timeout, "max_timeout", policy.max_timeout)?;
    check_order(
        "default_memory", policy.default_memory_bytes, "max_memory", policy.max_memory_bytes,
    )?;
    check_order("default_cpu", policy.default_cpu_millis, "max_cpu", policy.max_cpu_millis)?;
    Ok(policy)
}
