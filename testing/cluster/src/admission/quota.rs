//! `ResourceQuota`: the total usage of the pods in a namespace.

use k8s_openapi::api::core::v1::Pod;

use crate::faults::ResourceQuota;
use crate::quantity::amount;

/// The real plugin's message if this pod exceeds the quota.
pub(super) fn exceeded(pod: &Pod, others: &[Pod], quota: &ResourceQuota) -> Option<String> {
    let counted: Vec<_> = others.iter().filter(|pod| !is_over(pod)).collect();
    let over: Vec<_> = quota
        .hard
        .iter()
        .map(|(name, hard)| {
            (
                name,
                usage(pod, name),
                counted.iter().fold(0.0, |used, pod| used + usage(pod, name)),
                *hard,
            )
        })
        .filter(|(_, requested, used, hard)| requested + used > *hard)
        .collect();
    if over.is_empty() {
        return None;
    }
    let list = |value: fn(&(&String, f64, f64, f64)) -> f64| {
        over.iter()
            .map(|entry| format!("{}={}", entry.0, value(entry)))
            .collect::<Vec<_>>()
            .join(",")
    };
    Some(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name,
        list(|entry| entry.1),
        list(|entry| entry.2),
        list(|entry| entry.3)
    ))
}

/// A pod that has ended uses nothing.
fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The usage of one pod of `pods`, `limits.memory`, `requests.cpu` and the like.
fn usage(pod: &Pod, name: &str) -> f64 {
    let Some((kind, resource)) = name.split_once('.') else { return f64::from(name == "pods") };
    let spec = pod.spec.clone().unwrap_or_default();
    let of = |container: &k8s_openapi::api::core::v1::Container| {
        let resources = container.resources.clone().unwrap_or_default();
        let amounts = if kind == "limits" { resources.limits } else { resources.requests };
        amounts.unwrap_or_default().get(resource).and_then(amount).unwrap_or(0.0)
    };
    let together: f64 = spec.containers.iter().map(of).sum();
    // Init containers run one after the other before the rest, so the maximum counts.
    spec.init_containers.iter().flatten().map(of).fold(together, f64::max)
}
