//! Every route on one screen, and the layers around them.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::routes::{audit, blobs, docs, execution_files, executions, health, keys, skill_files, skills, tenants};
use crate::{guard, linger, openapi, request_id};

/// The documented routes.
pub fn documented() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(executions::create, executions::list))
        .routes(routes!(executions::get))
        .routes(routes!(executions::logs))
        .routes(routes!(executions::cancel))
        .routes(routes!(execution_files::list))
        .routes(routes!(execution_files::get))
        .routes(routes!(skills::create, skills::list))
        .routes(routes!(skills::validate))
        .routes(routes!(skills::versions))
        .routes(routes!(skills::get, skills::delete))
        .routes(routes!(skill_files::content))
        .routes(routes!(skill_files::list))
        .routes(routes!(skill_files::get))
        .routes(routes!(blobs::get))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
        .routes(routes!(tenants::create, tenants::list))
        .routes(routes!(tenants::get, tenants::update, tenants::delete))
        .routes(routes!(audit::list))
        .routes(routes!(docs::openapi))
}

/// The whole service.
pub fn build(app: Shared) -> Router {
    let (routes, _) = documented().split_for_parts();
    let routes = routes
        .route("/docs", get(docs::page))
        .route("/docs/docs.css", get(docs::style))
        .route("/docs/docs.js", get(docs::script));
    layered(routes).with_state(app)
}

/// What holds for every route. A request passes the layers from the last one added to the first.
fn layered<S: Clone + Send + Sync + 'static>(routes: Router<S>) -> Router<S> {
    routes
        .fallback(guard::unknown_route)
        .method_not_allowed_fallback(guard::wrong_method)
        // Our own body readers bound every body; axum's default would cut uploads short.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(guard::panicked))
        .layer(from_fn(linger::hear_out))
        .layer(from_fn(guard::headers))
        .layer(from_fn(request_id::assign))
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
    async fn a_panic_is_a_500_that_shows_nothing() {
        let router = layered(Router::<()>::new().route("/panic", get(panics)));
        let request = http::Request::get("/panic").body(axum::body::Body::empty()).expect("a request");
        let answer = router.oneshot(request).await.expect("an answer");
        assert_eq!(answer.status(), 500);
        assert!(answer.headers().contains_key("x-request-id"));
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert!(body.starts_with(r#"{"error":"internal","#) && !body.contains("secret"), "{body}");
    }
}
