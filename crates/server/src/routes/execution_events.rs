//! `/v1/executions/{id}/events`: the events of an execution, as server-sent events.
//!
//! Event ids mean the same on every server, so a client whose connection breaks resumes after the
//! last id it received, on any server. The next event is read only when the last one was sent, so a
//! slow client holds one batch in memory; a client that does not read at all is disconnected by the
//! write timeout, as on every route.

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

/// Proxies close connections without traffic after about a minute.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// The delay before a client reconnects.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Where the stream begins.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// Only events after the one with this id. The header `Last-Event-ID` does the same and takes
    /// precedence.
    after: Option<String>,
}

/// `event: state`
#[derive(Serialize, ToSchema)]
pub(crate) struct StateEvent {
    /// `queued` or `running`.
    #[schema(example = "running")]
    status: &'static str,
    #[schema(format = "date-time")]
    time: String,
}

/// `event: log`
#[derive(Serialize, ToSchema)]
pub(crate) struct LogEvent {
    /// `stdout`, `stderr`, or `merged` when the two are interleaved.
    #[schema(example = "stdout")]
    stream: &'static str,
    #[schema(format = "date-time")]
    time: String,
    text: String,
}

/// Follow an execution
///
/// A stream of `state` and `log` events, and a final `result` event whose data is the stored
/// execution. Every event has an id to resume from. A comment is sent every 15 seconds without
/// events.
#[utoipa::path(
    get, path = "/v1/executions/{id}/events", tag = "executions", operation_id = "follow_execution",
    params(
        ("id" = String, Path, format = "uuid"),
        After,
        ("Last-Event-ID" = Option<String>, Header, description = "Only events after the one with this id."),
    ),
    responses(
        (status = 200, description = "Server-sent events: `StateEvent`, `LogEvent`, `StoredExecution`", body = String, content_type = "text/event-stream"),
    )
)]
pub(crate) async fn follow(
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
    let stream = Sse::new(stream_of(events, app, links))
        .keep_alive(KeepAlive::new().interval(HEARTBEAT_INTERVAL));
    // Tells buffering proxies to forward events at once.
    Ok(([("x-accel-buffering", "no")], stream).into_response())
}

fn stream_of(
    events: Events,
    app: SharedApp,
    links: DownloadLinks,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let first = stream::once(async { Ok(Event::default().retry(RECONNECT_DELAY)) });
    let rest = stream::unfold((events, app, links), |(mut events, app, links)| async {
        let written = match events.next().await? {
            Ok(event) => write(event, &app, &links).await,
            Err(error) => Err(error.into()),
        };
        match written {
            Ok(event) => Some((Ok(event), (events, app, links))),
            // The status line is already sent, so the stream ends here without a result, and the
            // client reconnects and resumes.
            Err(error) => {
                tracing::warn!(error = error.message(), "an event stream ended early");
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
