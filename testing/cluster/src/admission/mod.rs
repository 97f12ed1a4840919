//! The plugins that look at a pod before it is stored: its security, then what its namespace may
//! still use.

mod quota;
mod security;

use k8s_openapi::api::core::v1::Pod;

use crate::faults::ResourceQuota;
use crate::status_error::StatusError;

/// What a pod is held against.
pub struct AdmissionPolicy<'a> {
    /// Whether its namespace enforces the restricted standard.
    pub restricted: bool,
    pub quota: Option<&'a ResourceQuota>,
    /// The pods that are there already.
    pub others: &'a [Pod],
}

pub fn admit(pod: &Pod, policy: &AdmissionPolicy<'_>) -> Result<(), StatusError> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if policy.restricted {
        let violations = security::violations(pod);
        if !violations.is_empty() {
            let why =
                format!("violates PodSecurity \"restricted:latest\": {}", violations.join(", "));
            return Err(StatusError::not_admitted(name, &why));
        }
    }
    match policy.quota.and_then(|quota| quota::exceeded(pod, policy.others, quota)) {
        Some(why) => Err(StatusError::not_admitted(name, &why)),
        None => Ok(()),
    }
}
