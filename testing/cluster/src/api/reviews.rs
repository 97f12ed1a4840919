//! `SelfSubjectAccessReview`: whether the caller has a permission.

use axum::Json;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::Context;
use crate::access::AccessRequest;
use crate::status_error::StatusError;

pub(super) async fn review(
    State(api): Context,
    headers: HeaderMap,
    Json(mut review): Json<Value>,
) -> Result<(StatusCode, Json<Value>), StatusError> {
    let user = api.access.user(&headers)?;
    let requested = &review["spec"]["resourceAttributes"];
    let text = |name: &str| requested[name].as_str().unwrap_or_default().to_owned();
    let (resource, subresource) = (text("resource"), text("subresource"));
    let resource =
        if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
    let (verb, namespace, name) = (text("verb"), text("namespace"), text("name"));
    let wanted =
        AccessRequest { verb: &verb, resource: &resource, namespace: &namespace, name: &name };
    // All rules concern the core group.
    let allowed = text("group").is_empty() && user.may(&wanted);
    review["kind"] = "SelfSubjectAccessReview".into();
    review["apiVersion"] = "authorization.k8s.io/v1".into();
    review["status"] = if allowed {
        json!({"allowed": true, "reason": "RBAC: allowed by Role"})
    } else {
        json!({"allowed": false})
    };
    Ok((StatusCode::CREATED, Json(review)))
}
