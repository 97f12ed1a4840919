//! Errors of the API: a `Status` with the same messages as the real one.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status, StatusDetails};
use serde_json::Value;

/// An unsuccessful response.
#[derive(Debug, Clone)]
pub(crate) struct StatusError(pub Box<Status>);

impl StatusError {
    fn new(code: u16, reason: &str, message: impl Into<String>) -> StatusError {
        StatusError(Box::new(Status {
            code: Some(code.into()),
            reason: Some(reason.to_owned()),
            message: Some(message.into()),
            status: Some("Failure".to_owned()),
            metadata: ListMeta::default(),
            details: None,
        }))
    }

    fn about(mut self, kind: &str, name: &str) -> StatusError {
        let name = Some(name.to_owned()).filter(|name| !name.is_empty());
        self.0.details =
            Some(StatusDetails { kind: Some(kind.to_owned()), name, ..StatusDetails::default() });
        self
    }

    pub(crate) fn unauthorized() -> StatusError {
        StatusError::new(401, "Unauthorized", "Unauthorized")
    }

    /// By the rules of RBAC.
    pub(crate) fn forbidden(
        user: &str,
        verb: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> StatusError {
        let place = if namespace.is_empty() {
            " at the cluster scope".to_owned()
        } else {
            format!(" in the namespace \"{namespace}\"")
        };
        let plural = resource.split('/').next().unwrap_or(resource);
        let which =
            if name.is_empty() { plural.to_owned() } else { format!("{plural} \"{name}\"") };
        let message = format!(
            "{which} is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"\"{place}"
        );
        StatusError::new(403, "Forbidden", message).about(plural, name)
    }

    /// By an admission plugin.
    pub(crate) fn not_admitted(name: &str, why: &str) -> StatusError {
        StatusError::new(403, "Forbidden", format!("pods \"{name}\" is forbidden: {why}"))
            .about("pods", name)
    }

    pub(crate) fn not_found(kind: &str, name: &str) -> StatusError {
        StatusError::new(404, "NotFound", format!("{kind} \"{name}\" not found")).about(kind, name)
    }

    pub(crate) fn no_such_path() -> StatusError {
        let mut status_error =
            StatusError::new(404, "NotFound", "the server could not find the requested resource");
        status_error.0.details = Some(StatusDetails::default());
        status_error
    }

    pub(crate) fn already_exists(name: &str) -> StatusError {
        StatusError::new(409, "AlreadyExists", format!("pods \"{name}\" already exists"))
            .about("pods", name)
    }

    pub(crate) fn conflict(name: &str, why: &str) -> StatusError {
        let message = format!("Operation cannot be fulfilled on pods \"{name}\": {why}");
        StatusError::new(409, "Conflict", message).about("pods", name)
    }

    /// A field with an invalid value.
    pub(crate) fn invalid(name: &str, field: &str, why: &str) -> StatusError {
        StatusError::new(422, "Invalid", format!("Pod \"{name}\" is invalid: {field}: {why}"))
            .about("Pod", name)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> StatusError {
        StatusError::new(400, "BadRequest", message)
    }

    /// The error of a watch that starts before the oldest stored change.
    pub(crate) fn expired(requested: u64, oldest: u64) -> StatusError {
        StatusError::new(
            410,
            "Expired",
            format!("too old resource version: {requested} ({oldest})"),
        )
    }

    /// The error of a request to a node that does not respond.
    pub(crate) fn kubelet_unreachable() -> StatusError {
        let mut status_error = StatusError::new(
            500,
            "",
            "error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused",
        );
        status_error.0.reason = None;
        status_error
    }

    pub(crate) fn too_many_requests() -> StatusError {
        let mut status_error = StatusError::new(
            429,
            "TooManyRequests",
            "the server has received too many requests, please try again later",
        );
        status_error.0.details =
            Some(StatusDetails { retry_after_seconds: Some(1), ..StatusDetails::default() });
        status_error
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::to_value(&*self.0).unwrap_or_default()
    }
}

impl IntoResponse for StatusError {
    fn into_response(self) -> Response {
        let code = self.0.code.and_then(|code| u16::try_from(code).ok());
        let code = code
            .and_then(|code| StatusCode::from_u16(code).ok())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (code, Json(self.json())).into_response();
        if code == StatusCode::TOO_MANY_REQUESTS {
            response
                .headers_mut()
                .insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
        }
        response
    }
}
