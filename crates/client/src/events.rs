//! Following an execution: its events as the server streams them, across broken connections.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::ACCEPT;
use reqwest::{Method, Response};
use serde::Deserialize;
use url::Url;

use crate::error::without_query;
use crate::{Client, ClientError, Execution, ExecutionStatus, Reply};

/// The server says something at least every 15 seconds; a silence of this length is a dead
/// connection.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);
/// Connections in a row that brought nothing before we give up.
const MAX_FAILURES: u32 = 10;
/// What one event may hold: the result with its output and logs.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Something that happened to an execution.
#[derive(Debug)]
pub enum ExecutionEvent {
    /// It is queued, or runs now.
    State(ExecutionStatus),
    Log(LogLine),
    /// It has ended. Nothing comes after this.
    Result(Box<Reply<Execution>>),
}

/// A piece of the log: one line or several, or the part of a line that there is so far.
#[derive(Debug, Clone, Deserialize)]
pub struct LogLine {
    /// `stdout`, `stderr`, or `merged` when the two are not kept apart.
    #[serde(default)]
    pub stream: String,
    pub time: Option<String>,
    pub text: String,
}

#[derive(Deserialize)]
struct StateEventBody {
    status: ExecutionStatus,
}

/// A live execution. ConnectionLost connections are taken up where they broke.
pub struct ExecutionEvents {
    client: Client,
    url: Url,
    connection: Option<EventConnection>,
    last_id: Option<String>,
    pause: Duration,
    failures: u32,
    ended: bool,
}

struct EventConnection {
    response: Response,
    lines: SseBuffer,
}

impl Client {
    /// Follows an execution from its beginning, or from behind the event with this id.
    pub async fn execution_events(
        &self,
        id: &str,
        after: Option<String>,
    ) -> Result<ExecutionEvents, ClientError> {
        let mut events = ExecutionEvents {
            client: self.clone(),
            url: self.url(&["v1", "executions", id, "events"]),
            connection: None,
            last_id: after,
            pause: Duration::from_secs(1),
            failures: 0,
            ended: false,
        };
        events.connection = Some(events.connect().await?);
        Ok(events)
    }
}

impl ExecutionEvents {
    /// The next event; `None` after the result. Cancelling this future loses no event.
    pub async fn next(&mut self) -> Result<Option<ExecutionEvent>, ClientError> {
        while !self.ended {
            let error = match self.read().await {
                Ok(Some(event)) => {
                    self.ended = matches!(event, ExecutionEvent::Result(_));
                    self.failures = 0;
                    return Ok(Some(event));
                }
                // This server shuts down and another one continues; or it cannot continue, which must
                // not become a flood.
                Ok(None) => ClientError::ConnectionLost {
                    url: without_query(&self.url),
                    cause: "it ended without a result".into(),
                },
                Err(error) => error,
            };
            self.connection = None;
            self.failures += 1;
            if self.failures >= MAX_FAILURES || is_permanent(&error) {
                return Err(error);
            }
            tokio::time::sleep(self.pause).await;
        }
        Ok(None)
    }

    /// The id to go on behind, for another time.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// One event of the connection there is, or of a new one; `None` when the server ended it.
    async fn read(&mut self) -> Result<Option<ExecutionEvent>, ClientError> {
        if self.connection.is_none() {
            self.connection = Some(self.connect().await?);
        }
        let Some(connection) = &mut self.connection else { return Ok(None) };
        loop {
            while let Some(block) = connection.lines.next_event() {
                if let Some(retry) = block.retry {
                    self.pause = retry;
                }
                if block.id.is_some() {
                    self.last_id.clone_from(&block.id);
                }
                if let Some(event) = parse(&self.url, &block)? {
                    return Ok(Some(event));
                }
            }
            let chunk = tokio::time::timeout(SILENCE_TIMEOUT, connection.response.chunk()).await;
            let broken = |cause: String| ClientError::ConnectionLost {
                url: without_query(&self.url),
                cause,
            };
            match chunk.map_err(|_| ClientError::Timeout { url: without_query(&self.url) })? {
                Ok(Some(bytes)) if connection.lines.room() >= bytes.len() => {
                    connection.lines.push(&bytes)
                }
                Ok(Some(_)) => {
                    return Err(broken(format!("an event has more than {MAX_EVENT_BYTES} bytes")));
                }
                Ok(None) => return Ok(None),
                Err(error) => return Err(broken(error.to_string())),
            }
        }
    }

    async fn connect(&self) -> Result<EventConnection, ClientError> {
        let mut request =
            self.client.request(Method::GET, &self.url).header(ACCEPT, "text/event-stream");
        if let Some(id) = &self.last_id {
            request = request.header("last-event-id", id);
        }
        let response = self.client.send(&self.url, request).await?;
        Ok(EventConnection { response, lines: SseBuffer::default() })
    }
}

/// What asking again would not change.
fn is_permanent(error: &ClientError) -> bool {
    match error {
        ClientError::Api { status, .. } => *status < 500 && *status != 429,
        ClientError::Invalid(_) | ClientError::InvalidResponse { .. } => true,
        _ => false,
    }
}

fn parse(url: &Url, block: &SseEvent) -> Result<Option<ExecutionEvent>, ClientError> {
    let invalid = |error: serde_json::Error| ClientError::InvalidResponse {
        url: without_query(url),
        cause: error.to_string(),
    };
    match block.event.as_str() {
        "state" => serde_json::from_str(&block.data)
            .map(|StateEventBody { status }| Some(ExecutionEvent::State(status)))
            .map_err(invalid),
        "log" => serde_json::from_str(&block.data)
            .map(|line| Some(ExecutionEvent::Log(line)))
            .map_err(invalid),
        "result" => {
            let reply = Reply::parse(url, 200, block.data.as_bytes())?;
            Ok(Some(ExecutionEvent::Result(Box::new(reply))))
        }
        // A kind that a newer server has.
        _ => Ok(None),
    }
}

/// One event of the wire format.
#[derive(Debug, Default, PartialEq, Eq)]
struct SseEvent {
    event: String,
    data: String,
    id: Option<String>,
    retry: Option<Duration>,
}

/// Bytes that become events at blank lines.
#[derive(Default)]
struct SseBuffer {
    held: Vec<u8>,
    /// How far `held` has been searched.
    searched: usize,
}

impl SseBuffer {
    fn room(&self) -> usize {
        MAX_EVENT_BYTES.saturating_sub(self.held.len())
    }

    fn push(&mut self, bytes: &Bytes) {
        self.held.extend_from_slice(bytes);
    }

    /// The next whole event. Our server ends lines with a line feed only.
    fn next_event(&mut self) -> Option<SseEvent> {
        let from = self.searched.saturating_sub(1);
        let Some(end) = self.held[from..].windows(2).position(|pair| pair == b"\n\n") else {
            self.searched = self.held.len();
            return None;
        };
        let rest = self.held.split_off(from + end + 2);
        let block = String::from_utf8_lossy(&self.held).into_owned();
        self.held = rest;
        self.searched = 0;
        Some(SseEvent::read(&block))
    }
}

impl SseEvent {
    fn read(text: &str) -> SseEvent {
        let mut block = SseEvent::default();
        for line in text.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut block.event),
                "id" => block.id = Some(value.to_owned()),
                "retry" => block.retry = value.parse().ok().map(Duration::from_millis),
                "data" => {
                    if !block.data.is_empty() {
                        block.data.push('\n');
                    }
                    block.data.push_str(value);
                }
                // A comment, or a field of a newer server.
                _ => {}
            }
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(pieces: &[&str]) -> Vec<SseEvent> {
        let mut lines = SseBuffer::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.push(&Bytes::copy_from_slice(piece.as_bytes()));
            found.extend(std::iter::from_fn(|| lines.next_event()));
        }
        found
    }

    #[test]
    fn events_are_found_however_the_bytes_are_cut() {
        let text = "retry: 2000\n\n: still here\n\nevent: log\nid: 7\ndata: {\"text\":\"a\"}\n\nevent: state\ndata: 1\n\nevent: lo";
        let whole = blocks(&[text]);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[0].retry, Some(Duration::from_secs(2)));
        assert_eq!(whole[1], SseEvent::default());
        let log = SseEvent {
            event: "log".into(),
            data: "{\"text\":\"a\"}".into(),
            id: Some("7".into()),
            retry: None,
        };
        assert_eq!(whole[2], log);
        let letters: Vec<&str> = text.split("").collect();
        assert_eq!(blocks(&letters), whole);
    }

    #[test]
    fn unknown_events_are_passed_over() {
        let url = Url::parse("http://h/").expect("a URL");
        let block =
            SseEvent { event: "weather".into(), data: "sunny".into(), ..SseEvent::default() };
        assert!(matches!(parse(&url, &block), Ok(None)));
        let block = SseEvent { event: "state".into(), data: "sunny".into(), ..SseEvent::default() };
        assert!(matches!(parse(&url, &block), Err(ClientError::InvalidResponse { .. })));
    }
}
