//! The API server: authorization and handlers. Its state is in the store; the node runs the pods.

mod attach;
mod discovery;
mod pods;
mod reviews;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::watch as tokio_watch;

use crate::access::AccessControl;
use crate::faults::Faults;
use crate::node::ClusterNode;
use crate::status_error::StatusError;
use crate::store::PodStore;

/// The state that handlers share.
pub(crate) struct ApiState {
    pub store: Arc<PodStore>,
    pub node: Arc<ClusterNode>,
    pub faults: Arc<Faults>,
    pub access: AccessControl,
    pub namespaces: Vec<ClusterNamespace>,
    /// Incremented to end every watch.
    pub watches: tokio_watch::Sender<u64>,
    /// Incremented to disconnect every attached client.
    pub attachments: tokio_watch::Sender<u64>,
}

/// A namespace, and whether it enforces the restricted standard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNamespace {
    pub name: String,
    pub restricted: bool,
}

pub(crate) type Context = State<Arc<ApiState>>;

/// Whether a flag of a query is set. As in the real API every value except `0` and `false` counts:
/// clients send `true`, `True` and `1`.
fn is_set(flag: &Option<String>) -> bool {
    flag.as_deref().is_some_and(|word| word != "0" && !word.eq_ignore_ascii_case("false"))
}

pub(crate) fn router(api: Arc<ApiState>) -> Router {
    Router::new()
        .route("/version", get(discovery::version))
        // The Kubernetes client for Python adds a trailing slash.
        .route("/version/", get(discovery::version))
        .route("/api", get(discovery::core))
        .route("/api/v1", get(discovery::core_resources))
        .route("/apis", get(discovery::groups))
        .route("/apis/authorization.k8s.io/v1", get(discovery::authorization_resources))
        .route("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", post(reviews::review))
        .route("/api/v1/namespaces/{namespace}", get(discovery::namespace))
        .route("/api/v1/pods", get(pods::list_all))
        .route("/api/v1/namespaces/{namespace}/pods", get(pods::list).post(pods::create))
        .route("/api/v1/namespaces/{namespace}/pods/{name}", get(pods::get).delete(pods::delete))
        .route(
            "/api/v1/namespaces/{namespace}/pods/{name}/attach",
            get(attach::attach).post(attach::attach),
        )
        .fallback(unknown)
        .layer(middleware::from_fn_with_state(api.clone(), faults))
        .with_state(api)
}

/// Unknown paths: without valid credentials the response is 401, as for every other path.
async fn unknown(State(api): Context, request: Request) -> StatusError {
    match api.access.user(request.headers()) {
        Ok(_) => StatusError::no_such_path(),
        Err(status_error) => status_error,
    }
}

/// Applies the current faults of the API.
async fn faults(State(api): Context, request: Request<Body>, next: Next) -> Response {
    let throttled_requests = api.faults.change(|faults| {
        let throttled_requests = faults.throttled_requests > 0;
        faults.throttled_requests = faults.throttled_requests.saturating_sub(1);
        throttled_requests
    });
    if throttled_requests {
        return StatusError::too_many_requests().into_response();
    }
    let response_delay = api.faults.now().response_delay;
    if !response_delay.is_zero() {
        tokio::time::sleep(response_delay).await;
    }
    next.run(request).await
}
