//! `/metrics`: for Prometheus and what understands its format. Not part of the described API.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;

use crate::app::SharedApp;
use crate::auth::MetricsReader;

pub(crate) async fn show(_: MetricsReader, State(app): State<SharedApp>) -> Response {
    let page = app.metrics.page(&app.store, app.memory.budget(), &app.runner).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
}
