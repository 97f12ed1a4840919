//! The limits of one run: the caller's wish within the skill's own within the server's. Pure.

use std::time::Duration;

use skill::{Manifest, format_cpu, format_duration, format_memory};

use crate::{Policy, Request};

/// Less than this and no interpreter starts at all.
const MIN_MEMORY_BYTES: u64 = 16 << 20;
const MIN_CPU_MILLIS: u32 = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub timeout: Duration,
    pub memory_bytes: u64,
    pub cpu_millis: u32,
    /// One sentence for each wish that was not granted.
    pub clamped: Vec<String>,
}

impl Limits {
    pub fn new(manifest: &Manifest, request: &Request, policy: &Policy) -> Limits {
        let mut clamped = Vec::new();
        let timeout_ms = Range {
            what: "timeout",
            default: millis(policy.default_timeout),
            min: 1,
            max: millis(policy.max_timeout),
            show: format_duration,
        }
        .choose(manifest.timeout_ms, request.timeout_ms, &mut clamped);
        let memory_bytes = Range {
            what: "memory",
            default: policy.default_memory_bytes,
            min: MIN_MEMORY_BYTES,
            max: policy.max_memory_bytes,
            show: format_memory,
        }
        .choose(manifest.resources.memory_bytes, request.limits.memory_bytes, &mut clamped);
        let cpu_millis = Range {
            what: "cpu",
            default: policy.default_cpu_millis.into(),
            min: MIN_CPU_MILLIS.into(),
            max: policy.max_cpu_millis.into(),
            show: |millis| format_cpu(u32::try_from(millis).unwrap_or(u32::MAX)),
        }
        .choose(
            manifest.resources.cpu_millis.map(u64::from),
            request.limits.cpu_millis.map(u64::from),
            &mut clamped,
        );
        Limits {
            timeout: Duration::from_millis(timeout_ms),
            memory_bytes,
            // Both ends of the range came from a u32.
            cpu_millis: u32::try_from(cpu_millis).unwrap_or(u32::MAX),
            clamped,
        }
    }
}

/// What the server allows for one limit.
struct Range {
    what: &'static str,
    default: u64,
    min: u64,
    max: u64,
    show: fn(u64) -> String,
}

impl Range {
    /// The caller may only tighten what the skill declares; a skill that declares nothing has the
    /// server's maximum above it and the default when the caller is silent too.
    fn choose(&self, skill: Option<u64>, caller: Option<u64>, clamped: &mut Vec<String>) -> u64 {
        let own = self.clamp("the skill's", skill, self.max, clamped);
        let ceiling = own.unwrap_or(self.max);
        self.clamp("the requested", caller, ceiling, clamped)
            .or(own)
            .unwrap_or(self.default.clamp(self.min, self.max))
    }

    fn clamp(
        &self,
        whose: &str,
        asked: Option<u64>,
        max: u64,
        clamped: &mut Vec<String>,
    ) -> Option<u64> {
        let asked = asked?;
        let given = asked.max(self.min).min(max);
        if given != asked {
            let (asked, given) = ((self.show)(asked), (self.show)(given));
            clamped.push(format!("{whose} {} of {asked} was set to {given}", self.what));
        }
        Some(given)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
