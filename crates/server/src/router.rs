//! Every route on one screen, and the layers around them.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::SharedApp;
use crate::config::Role;
use crate::http::{middleware, rejected_body, request_id};
use crate::metrics::count;
use crate::routes::openapi;
use crate::routes::{
    audit, blobs, discovery, docs, execution_events, execution_files, executions, files, health,
    keys, mcp, metrics, receipts, skill_files, skill_reviews, skills, tenants, trust_digests,
    trust_keys, trust_versions, usage, webhooks,
};

/// The documented routes.
pub(crate) fn documented() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(executions::create, executions::list))
        .routes(routes!(executions::get))
        .routes(routes!(executions::logs))
        .routes(routes!(execution_events::follow))
        .routes(routes!(executions::cancel))
        .routes(routes!(execution_files::list))
        .routes(routes!(execution_files::get))
        .routes(routes!(receipts::get))
        .routes(routes!(receipts::key))
        .routes(routes!(files::create, files::list))
        .routes(routes!(files::get, files::update, files::delete))
        .routes(routes!(files::download))
        .routes(routes!(files::versions))
        .routes(routes!(skills::create, skills::list))
        .routes(routes!(skills::validate))
        .routes(routes!(discovery::prompt))
        .routes(routes!(discovery::index))
        .routes(routes!(skills::versions))
        .routes(routes!(skills::get, skills::delete))
        .routes(routes!(skill_reviews::approve))
        .routes(routes!(skill_reviews::reject))
        .routes(routes!(skill_files::content))
        .routes(routes!(skill_files::list))
        .routes(routes!(skill_files::get))
        .routes(routes!(blobs::get))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
        .routes(routes!(tenants::create, tenants::list))
        .routes(routes!(tenants::get, tenants::update, tenants::delete))
        .routes(routes!(trust_keys::add, trust_keys::list))
        .routes(routes!(trust_keys::revoke))
        .routes(routes!(trust_digests::revoke, trust_digests::list))
        .routes(routes!(trust_digests::unrevoke))
        .routes(routes!(trust_versions::list))
        .routes(routes!(trust_versions::forget))
        .routes(routes!(usage::get))
        .routes(routes!(webhooks::secret))
        .routes(routes!(audit::list))
        .routes(routes!(audit::head))
        .routes(routes!(docs::openapi))
}

/// The routes of a process with this role.
pub(crate) fn build(app: SharedApp, role: Role) -> Router {
    let routes = match role {
        Role::All | Role::Api => service(),
        // A worker has no callers: only probes and Prometheus connect to it.
        Role::Worker => {
            Router::new().route("/health", get(health::health)).route("/ready", get(health::ready))
        }
    };
    let counted = from_fn_with_state(app.clone(), count);
    layered(routes.route("/metrics", get(metrics::show))).layer(counted).with_state(app)
}

/// All routes of the API.
fn service() -> Router<SharedApp> {
    let (routes, _) = documented().split_for_parts();
    routes
        .route("/mcp", post(mcp::serve).get(mcp::serve).delete(mcp::serve))
        .route("/docs", get(docs::page))
        .route("/docs/docs.css", get(docs::style))
        .route("/docs/docs.js", get(docs::script))
}

/// The layers around every route. A request passes them from the last one added to the first.
pub(crate) fn layered<S: Clone + Send + Sync + 'static>(routes: Router<S>) -> Router<S> {
    routes
        .fallback(middleware::unknown_route)
        .method_not_allowed_fallback(middleware::wrong_method)
        // Our own body readers limit every body; axum's default of 2 MB would reject uploads.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(middleware::respond_to_panic))
        .layer(from_fn(rejected_body::drain_rejected_body))
        .layer(from_fn(middleware::set_headers))
        .layer(from_fn(request_id::assign_request_id))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn panics() {
        panic!("a secret inside")
    }

    #[tokio::test]
    async fn a_panic_is_a_500_without_details() {
        let router = layered(Router::<()>::new().route("/panic", get(panics)));
        let request =
            http::Request::get("/panic").body(axum::body::Body::empty()).expect("a request");
        let response = router.oneshot(request).await.expect("a response");
        assert_eq!(response.status(), 500);
        assert!(response.headers().contains_key("x-request-id"));
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert!(body.starts_with(r#"{"error":"internal","#) && !body.contains("secret"), "{body}");
    }
}
