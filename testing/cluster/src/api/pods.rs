//! Pods: list, create, get, delete.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Time};
use k8s_openapi::jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ApiState, Context, is_set, watch};
use crate::access::AccessRequest;
use crate::admission::{self, AdmissionPolicy};
use crate::selector::PodSelector;
use crate::status_error::StatusError;
use crate::{defaults, validation};

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListQuery {
    pub label_selector: String,
    pub field_selector: String,
    pub resource_version: String,
    pub watch: Option<String>,
    pub allow_watch_bookmarks: Option<String>,
    pub timeout_seconds: Option<u64>,
    pub send_initial_events: Option<String>,
}

pub(super) async fn list_all(
    state: Context,
    query: Query<ListQuery>,
    headers: HeaderMap,
) -> Result<Response, StatusError> {
    listed(&state, None, query.0, &headers)
}

pub(super) async fn list(
    state: Context,
    Path(namespace): Path<String>,
    query: Query<ListQuery>,
    headers: HeaderMap,
) -> Result<Response, StatusError> {
    listed(&state, Some(namespace), query.0, &headers)
}

fn listed(
    State(api): &Context,
    namespace: Option<String>,
    query: ListQuery,
    headers: &HeaderMap,
) -> Result<Response, StatusError> {
    let watched = is_set(&query.watch);
    let verb = if watched { "watch" } else { "list" };
    let place = namespace.as_deref().unwrap_or_default();
    api.access
        .check(headers, &AccessRequest { verb, resource: "pods", namespace: place, name: "" })?;
    let selector = PodSelector::parse(&query.label_selector, &query.field_selector)?;
    if watched {
        return watch::watch(api.clone(), namespace, selector, &query);
    }
    let (revision, pods) = api.store.list(namespace.as_deref());
    let mut items: Vec<_> = pods.iter().filter(|pod| selector.matches(pod)).map(object).collect();
    // In a list only the list itself has a kind.
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.remove("kind");
        item.remove("apiVersion");
    }
    let list = json!({"kind": "PodList", "apiVersion": "v1",
        "metadata": {"resourceVersion": revision.to_string()}, "items": items});
    Ok(Json(list).into_response())
}

pub(super) async fn create(
    State(api): Context,
    Path(namespace): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), StatusError> {
    let wanted =
        AccessRequest { verb: "create", resource: "pods", namespace: &namespace, name: "" };
    api.access.check(&headers, &wanted)?;
    let mut pod: Pod = parse(&body)?;
    let sent = pod.metadata.namespace.clone().unwrap_or_else(|| namespace.clone());
    if sent != namespace {
        let why = format!(
            "the namespace of the provided object does not match the namespace sent on the request: {sent:?}"
        );
        return Err(StatusError::bad_request(why));
    }
    let place = api.namespaces.iter().find(|place| place.name == namespace);
    let place = place.ok_or_else(|| StatusError::not_found("namespaces", &namespace))?;
    defaults::apply_defaults(&mut pod, &namespace);
    let quota = api.faults.now().quota;
    let (_, others) = api.store.list(Some(&namespace));
    let policy =
        AdmissionPolicy { restricted: place.restricted, quota: quota.as_ref(), others: &others };
    admission::admit(&pod, &policy)?;
    validation::check(&pod)?;
    let pod = api.store.create(pod)?;
    api.node.host(&pod);
    Ok((StatusCode::CREATED, Json(object(&pod))))
}

pub(super) async fn get(
    State(api): Context,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusError> {
    let wanted =
        AccessRequest { verb: "get", resource: "pods", namespace: &namespace, name: &name };
    api.access.check(&headers, &wanted)?;
    api.store
        .get(&namespace, &name)
        .map(|pod| Json(object(&pod)))
        .ok_or_else(|| StatusError::not_found("pods", &name))
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeleteQuery {
    grace_period_seconds: Option<i64>,
}

pub(super) async fn delete(
    State(api): Context,
    Path((namespace, name)): Path<(String, String)>,
    query: Query<DeleteQuery>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, StatusError> {
    let wanted =
        AccessRequest { verb: "delete", resource: "pods", namespace: &namespace, name: &name };
    api.access.check(&headers, &wanted)?;
    let options: DeleteOptions =
        if body.is_empty() { DeleteOptions::default() } else { parse(&body)? };
    let pod =
        api.store.get(&namespace, &name).ok_or_else(|| StatusError::not_found("pods", &name))?;
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    if let Some(wanted) =
        options.preconditions.and_then(|preconditions| preconditions.uid).filter(|u| *u != uid)
    {
        let why = format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
        );
        return Err(StatusError::conflict(&name, &why));
    }
    let grace = options.grace_period_seconds.or(query.grace_period_seconds);
    let deleted = end(&api, &pod, grace).ok_or_else(|| StatusError::not_found("pods", &name))?;
    Ok(Json(object(&deleted)))
}

/// Marks a pod for deletion by its node, or removes it at once when there is nothing to wait for.
pub(super) fn end(api: &ApiState, pod: &Pod, grace: Option<i64>) -> Option<Pod> {
    let (namespace, name) = (pod.metadata.namespace.as_deref()?, pod.metadata.name.as_deref()?);
    let uid = pod.metadata.uid.as_deref()?;
    let spec = pod.spec.clone().unwrap_or_default();
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let over = matches!(phase, Some("Succeeded" | "Failed"));
    let wanted = grace.or(spec.termination_grace_period_seconds).unwrap_or(30).max(0);
    // A pod without a node, or one that has ended, needs no grace period.
    let grace = if spec.node_name.is_none() || over { 0 } else { wanted };
    let finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
    if grace == 0 && finalizers.is_empty() {
        return api.store.remove(namespace, name, uid);
    }
    api.store.update(namespace, name, uid, |pod| {
        let until = defaults::now().0 + SignedDuration::from_secs(grace);
        let metadata = &mut pod.metadata;
        // A second request can only shorten the grace period.
        if metadata.deletion_grace_period_seconds.is_none_or(|seconds| grace < seconds) {
            metadata.deletion_grace_period_seconds = Some(grace);
            metadata.deletion_timestamp = Some(Time(until));
        }
    })
}

/// A pod as JSON.
pub(super) fn object(pod: &Pod) -> Value {
    serde_json::to_value(pod).unwrap_or_default()
}

fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, StatusError> {
    serde_json::from_slice(body).map_err(|error| {
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type Pod): {error}"
        ))
    })
}
