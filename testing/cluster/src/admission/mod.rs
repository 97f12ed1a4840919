//! Admission plugins, which check a pod before it is stored: pod security, then quota.

mod quota;
mod security;

use k8s_openapi::api::core::v1::Pod;

use crate::faults::ResourceQuota;
use crate::status_error::StatusError;

/// The policy of a namespace.
pub(crate) struct AdmissionPolicy<'a> {
    /// Whether the namespace enforces the restricted standard.
    pub restricted: bool,
    pub quota: Option<&'a ResourceQuota>,
    /// The existing pods of the namespace.
    pub others: &'a [Pod],
}

pub(crate) fn admit(pod: &Pod, policy: &AdmissionPolicy<'_>) -> Result<(), StatusError> {
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
