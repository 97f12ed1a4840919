//! API discovery: versions, groups, resources, namespaces.

use axum::Json;
use axum::extract::{Path, State};
use http::HeaderMap;
use serde_json::{Value, json};

use super::Context;
use crate::access::AccessRequest;
use crate::status_error::StatusError;

/// The version whose behaviour is imitated.
const VERSION: &str = "v1.35.0";

/// Available without authentication, as in a cluster with the default roles.
pub(super) async fn version() -> Json<Value> {
    Json(json!({
        "major": "1", "minor": "35", "gitVersion": VERSION, "gitCommit": "0".repeat(40), "gitTreeState": "clean",
        "buildDate": "2025-12-17T00:00:00Z", "goVersion": "go1.25.5", "compiler": "gc", "platform": "linux/amd64",
    }))
}

pub(super) async fn core(
    State(api): Context,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusError> {
    api.access.user(&headers)?;
    Ok(Json(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})))
}

pub(super) async fn groups(
    State(api): Context,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusError> {
    api.access.user(&headers)?;
    let version = json!({"groupVersion": "authorization.k8s.io/v1", "version": "v1"});
    let group =
        json!({"name": "authorization.k8s.io", "versions": [version], "preferredVersion": version});
    Ok(Json(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})))
}

pub(super) async fn core_resources(
    State(api): Context,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusError> {
    api.access.user(&headers)?;
    let resource = |name: &str, kind: &str, namespaced: bool, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs});
    let mut pods = resource("pods", "Pod", true, &["create", "delete", "get", "list", "watch"]);
    pods["shortNames"] = json!(["po"]);
    Ok(Json(json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        resource("namespaces", "Namespace", false, &["get"]),
        pods,
        resource("pods/attach", "PodAttachOptions", true, &["create", "get"]),
    ]})))
}

pub(super) async fn authorization_resources(
    State(api): Context,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusError> {
    api.access.user(&headers)?;
    Ok(Json(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "authorization.k8s.io/v1",
        "resources": [{"name": "selfsubjectaccessreviews", "singularName": "", "namespaced": false,
            "kind": "SelfSubjectAccessReview", "verbs": ["create"]}]}),
    ))
}

pub(super) async fn namespace(
    State(api): Context,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusError> {
    api.access.check(
        &headers,
        &AccessRequest { verb: "get", resource: "namespaces", namespace: &name, name: &name },
    )?;
    let found = api.namespaces.iter().find(|namespace| namespace.name == name);
    let found = found.ok_or_else(|| StatusError::not_found("namespaces", &name))?;
    let mut labels = json!({"kubernetes.io/metadata.name": name});
    if found.restricted {
        labels["pod-security.kubernetes.io/enforce"] = "restricted".into();
    }
    Ok(Json(
        json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name, "labels": labels},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
    ))
}
