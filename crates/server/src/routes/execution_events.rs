//! `/v1/executions/{id}/events`: an execution as it happens, as server-sent events.
//!
//! The runner's events have ids that mean the same on every server, so a reader whose connection
//! breaks goes on behind the last id it saw, wherever it connects next. A reader asks for the next
//! event only when the last one is sent, so a slow one holds one batch; one that does not read at
//! all is cut off as on every route.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use http::HeaderMap;
use runner::{EventId, EventKind, Events};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::execution_view::StoredExecution;
use super::executions::{execution_not_found, files_of, find};
use crate::app::SharedApp;
use crate::auth::{Allowed, Read};
use crate::error::{ApiError, error_chain};
use crate::http::extract::{self, Path, Query};
use crate::http::links::DownloadLinks;
use crate::http::timestamp::rfc3339;

/// Proxies cut connections that are silent for a minute or so.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What readers wait before they come back.
const RETRY: Duration = Duration::from_secs(1);

/// Where to begin.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct After {
    /// Only events behind the one with this id; the header `Last-Event-ID` says the same and wins.
    after: Option<String>,
}

/// `event: state`
#[derive(Serialize, ToSchema)]
pub struct StateEvent {
    /// `queued` or `running`.
    #[schema(example = "running")]
    status: &'static str,
    #[schema(format = "date-time")]
    time: String,
}

/// `event: log`
#[derive(Serialize, ToSchema)]
pub struct LogEvent {
    /// `stdout`, `stderr`, or `merged` when the two are one.
    #[schema(example = "stdout")]
    stream: &'static str,
    #[schema(format = "date-time")]
    time: String,
    text: String,
}

/// Follow an execution
///
/// A stream of `state`, `log` and, at last, `result` events; the data of `result` is what reading
/// the execution gives. Every event has an id to go on from. A comment comes every 15 seconds when
/// nothing happens.
#[utoipa::path(
    get, path = "/v1/executions/{id}/events", tag = "executions", operation_id = "follow_execution",
    params(
        ("id" = String, Path, format = "uuid"),
        After,
        ("Last-Event-ID" = Option<String>, Header, description = "Only events behind the one with this id."),
    ),
    responses(
        (status = 200, description = "Server-sent events: `StateEvent`, `LogEvent`, `StoredExecution`", body = String, content_type = "text/event-stream"),
    )
)]
pub async fn follow(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    links: DownloadLinks,
    headers: HeaderMap,
    Query(query): Query<After>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let id = extract::parse_id("Execution", &id)?;
    let after = headers
        .get("last-event-id")
        .map(|id| id.to_str().unwrap_or("?").to_owned())
        .or(query.after);
    let after =
        after.as_deref().filter(|id| !id.is_empty()).map(str::parse::<EventId>).transpose()?;
    find(&app, &caller, id).await?;
    let events = app
        .runner
        .events(&caller.tenant, id, after)
        .await?
        .ok_or_else(|| execution_not_found(id))?;
    let stream =
        Sse::new(stream_of(events, app, links)).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    // Proxies that would collect an answer before they pass it on are asked not to.
    Ok(([("x-accel-buffering", "no")], stream).into_response())
}

fn stream_of(
    events: Events,
    app: SharedApp,
    links: DownloadLinks,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let first = stream::once(async { Ok(Event::default().retry(RETRY)) });
    let rest = stream::unfold((events, app, links), |(mut events, app, links)| async {
        let written = match events.next().await? {
            Ok(event) => write(event, &app, &links).await,
            Err(error) => Err(error.into()),
        };
        match written {
            Ok(event) => Some((Ok(event), (events, app, links))),
            // The status line is long gone: the stream ends, and the reader comes back for the
            // rest.
            Err(error) => {
                tracing::warn!(error = error.message(), "a stream of events was cut");
                None
            }
        }
    });
    first.chain(rest)
}

async fn write(
    event: runner::Event,
    app: &SharedApp,
    links: &DownloadLinks,
) -> Result<Event, ApiError> {
    let (id, time) = (event.id.to_string(), rfc3339(event.at));
    let written = Event::default().id(id);
    let written = match event.kind {
        EventKind::State(status) => {
            written.event("state").json_data(StateEvent { status: status.as_str(), time })
        }
        EventKind::Log { stream, text } => {
            written.event("log").json_data(LogEvent { stream: stream.as_str(), time, text })
        }
        EventKind::Result(execution) => {
            let files = files_of(app, &execution).await?;
            written.event("result").json_data(StoredExecution::new(*execution, files, links)?)
        }
    };
    written.map_err(|error| ApiError::internal(error_chain(&error)))
}
