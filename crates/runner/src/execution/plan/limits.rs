//! The limits of one run: what the caller requests, within the skill's limits, within the server's.
//! Pure.

use std::time::Duration;

use skill::{Manifest, format_cpu, format_duration, format_memory};

use crate::{Request, RunPolicy};

/// With less than this no interpreter starts at all.
const MIN_MEMORY_BYTES: u64 = 16 << 20;
const MIN_CPU_MILLIS: u32 = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunLimits {
    pub timeout: Duration,
    pub memory_bytes: u64,
    pub cpu_millis: u32,
    /// Limits that were lowered to the allowed maximum, or raised to the minimum, a sentence each.
    pub clamped: Vec<String>,
}

impl RunLimits {
    pub(crate) fn new(manifest: &Manifest, request: &Request, policy: &RunPolicy) -> RunLimits {
        let mut clamped = Vec::new();
        let timeout_ms = LimitRange {
            name: "timeout",
            default: millis(policy.default_timeout),
            min: 1,
            max: millis(policy.max_timeout),
            format: format_duration,
        }
        .choose(manifest.timeout_ms, request.timeout_ms, &mut clamped);
        let memory_bytes = LimitRange {
            name: "memory",
            default: policy.default_memory_bytes,
            min: MIN_MEMORY_BYTES,
            max: policy.max_memory_bytes,
            format: format_memory,
        }
        .choose(manifest.resources.memory_bytes, request.limits.memory_bytes, &mut clamped);
        let cpu_millis = LimitRange {
            name: "cpu",
            default: policy.default_cpu_millis.into(),
            min: MIN_CPU_MILLIS.into(),
            max: policy.max_cpu_millis.into(),
            format: |millis| format_cpu(u32::try_from(millis).unwrap_or(u32::MAX)),
        }
        .choose(
            manifest.resources.cpu_millis.map(u64::from),
            request.limits.cpu_millis.map(u64::from),
            &mut clamped,
        );
        RunLimits {
            timeout: Duration::from_millis(timeout_ms),
            memory_bytes,
            // Both ends of the range came from a u32.
            cpu_millis: u32::try_from(cpu_millis).unwrap_or(u32::MAX),
            clamped,
        }
    }
}

/// What the server allows for one limit.
struct LimitRange {
    name: &'static str,
    default: u64,
    min: u64,
    max: u64,
    format: fn(u64) -> String,
}

impl LimitRange {
    /// The caller may only tighten what the skill declares. A skill that declares nothing is
    /// limited by the server's maximum, and gets the default if the caller requests nothing either.
    fn choose(&self, skill: Option<u64>, caller: Option<u64>, clamped: &mut Vec<String>) -> u64 {
        let declared = self.clamp("the skill's", skill, self.max, clamped);
        let ceiling = declared.unwrap_or(self.max);
        self.clamp("the requested", caller, ceiling, clamped)
            .or(declared)
            .unwrap_or(self.default.clamp(self.min, self.max))
    }

    fn clamp(
        &self,
        whose: &str,
        requested: Option<u64>,
        max: u64,
        clamped: &mut Vec<String>,
    ) -> Option<u64> {
        let requested = requested?;
        let granted = requested.max(self.min).min(max);
        if granted != requested {
            let (requested, granted) = ((self.format)(requested), (self.format)(granted));
            clamped.push(format!("{whose} {} of {requested} was set to {granted}", self.name));
        }
        Some(granted)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
