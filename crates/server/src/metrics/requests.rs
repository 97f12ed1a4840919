//! Requests by method, route and status class. A route is its template, and all unknown methods are
//! one label, so that clients cannot create new time series.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, StatusCode};

use super::page::MetricsPage;
use crate::app::SharedApp;

const NAME: &str = "skillbox_http_requests_total";

#[derive(Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<RequestLabels, u64>>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RequestLabels {
    route: String,
    method: &'static str,
    class: &'static str,
}

/// Counts every request when the head of its response is ready.
pub(crate) async fn count(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    let route =
        request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let method = method(request.method());
    let response = next.run(request).await;
    app.metrics.requests.add(RequestLabels { route, method, class: class(response.status()) });
    response
}

impl RequestCounts {
    fn add(&self, kind: RequestLabels) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }

    pub(crate) fn show(&self, page: &mut MetricsPage) {
        page.family(NAME, "counter", "Requests by route, method and class of answer.");
        for (kind, count) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            page.sample(
                NAME,
                &[("route", &kind.route), ("method", kind.method), ("class", kind.class)],
                count,
            );
        }
    }
}

fn method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}
