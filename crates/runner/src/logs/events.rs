//! The events of one execution, as a stream that a subscriber can leave and resume on any server.
//!
//! An event id is the attempt and the number of bytes of its log that the subscriber has seen. Both
//! are the same whether the log is read in segments while it grows or whole from the record, so a
//! subscriber resumes without loss or repetition, also after the end. Subscribers poll for the next
//! event: a slow one keeps one batch in memory and delays no other task.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use store::{Execution, LogSegment, LogStream, Micros, Status, TenantId};
use uuid::Uuid;

use crate::RunError;
use crate::logs::buffer::MAX_SEGMENT_BYTES;
use crate::queue::waiters::Waiter;
use crate::runner::Runner;
use admission::Permit;

/// Segments of a log that are read at once.
const SEGMENTS_PER_BATCH: i64 = 16;

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: EventId,
    pub at: Micros,
    pub kind: EventKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// The execution is queued or running.
    State(Status),
    /// More of the log: usually some lines, always whole characters.
    Log { stream: LogStream, text: String },
    /// The execution has ended; no event follows.
    Result(Box<Execution>),
}

/// The position of a subscriber in the events of an execution. Later events have greater ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventId {
    attempt: i32,
    /// Bytes of the log that were seen; no event comes after `END`.
    seen: i64,
}

const END: i64 = i64::MAX;

impl EventId {
    fn start(attempt: i32) -> EventId {
        EventId { attempt, seen: 0 }
    }

    fn end(attempt: i32) -> EventId {
        EventId { attempt, seen: END }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seen {
            END => write!(f, "{}.end", self.attempt),
            seen => write!(f, "{}.{seen}", self.attempt),
        }
    }
}

impl FromStr for EventId {
    type Err = RunError;

    fn from_str(text: &str) -> Result<EventId, RunError> {
        let parse = || {
            let (attempt, seen) = text.split_once('.')?;
            let seen = if seen == "end" {
                END
            } else {
                seen.parse().ok().filter(|seen| (0..END).contains(seen))?
            };
            Some(EventId { attempt: attempt.parse().ok().filter(|attempt| *attempt >= 0)?, seen })
        };
        parse().ok_or_else(|| {
            RunError::InvalidRequest("Last-Event-ID is not a valid event id".to_owned())
        })
    }
}

/// One subscription to the events of one execution.
pub struct Events {
    runner: Arc<Runner>,
    tenant: TenantId,
    waiter: Waiter,
    last: Option<EventId>,
    ready: VecDeque<Event>,
    /// Covers the events in `ready`.
    memory: Option<Permit>,
    over: bool,
}

impl Runner {
    /// The events of an execution after `after`, or all of them; `None` when the tenant has no such
    /// execution.
    pub async fn events(
        self: &Arc<Self>,
        tenant: &TenantId,
        id: Uuid,
        after: Option<EventId>,
    ) -> Result<Option<Events>, RunError> {
        let waiter = self.subscribers.subscribe(id);
        let live = self.store.mark_watched(tenant, id).await?;
        if !live && self.store.get_execution_summary(tenant, id).await?.is_none() {
            return Ok(None);
        }
        Ok(Some(Events {
            runner: Arc::clone(self),
            tenant: tenant.clone(),
            waiter,
            last: after,
            ready: VecDeque::new(),
            memory: None,
            over: false,
        }))
    }
}

impl Events {
    /// The next event, as soon as there is one. `None` at the end, and when this server shuts down:
    /// another server continues after the last id.
    pub async fn next(&mut self) -> Option<Result<Event, RunError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            if let Err(error) = self.read().await {
                self.over = true;
                return Some(Err(error));
            }
            if self.ready.is_empty() && !self.over {
                self.wait().await;
            }
        }
    }

    /// Reads what has happened since the last event into `ready`.
    async fn read(&mut self) -> Result<(), RunError> {
        self.memory = None;
        let (store, id) = (self.runner.store.clone(), self.waiter.id());
        let Some(row) = store.get_execution_summary(&self.tenant, id).await? else {
            self.over = true;
            return Ok(());
        };
        let attempt = row.attempt;
        if self.last < Some(EventId::start(attempt)) {
            self.push(EventId::start(attempt), state_event(&row));
        }
        let seen = self.seen(attempt);
        let mut memory = self
            .runner
            .memory
            .reserve(&self.tenant, SEGMENTS_PER_BATCH as u64 * MAX_SEGMENT_BYTES as u64)
            .await?;
        let segments = store.read_log(&self.tenant, id, attempt, seen, SEGMENTS_PER_BATCH).await?;
        let whole = segments.len() < usize::try_from(SEGMENTS_PER_BATCH).unwrap_or(usize::MAX);
        memory.shrink_to(segments.iter().map(|segment| segment.text.len() as u64).sum());
        for segment in segments {
            self.push_log(attempt, segment);
        }
        if whole && row.status.is_terminal() {
            self.over = true;
            let bytes = store.execution_bytes(&self.tenant, id).await?.unwrap_or(0);
            // The log is copied once more, and the whole result when it is sent.
            self.runner.memory.reserve_more(&mut memory, bytes.saturating_mul(3)).await?;
            if let Some(execution) = store.get_execution(&self.tenant, id).await? {
                self.push_end(execution);
            }
        }
        self.memory = Some(memory);
        Ok(())
    }

    /// The result, and before it the part of the recorded log that the subscriber has not seen.
    fn push_end(&mut self, execution: Execution) {
        let (attempt, at) =
            (execution.attempt, execution.finished_at.unwrap_or(execution.created_at));
        let recorded_log = LogSegment {
            ends_at: i64::try_from(execution.logs.len()).unwrap_or(END - 1),
            stream: LogStream::Merged,
            written_at: at,
            text: execution.logs.clone(),
        };
        self.push_log(attempt, recorded_log);
        if self.last < Some(EventId::end(attempt)) {
            self.push(EventId::end(attempt), (at, EventKind::Result(Box::new(execution))));
        }
    }

    /// The part of a segment that the subscriber has not seen.
    fn push_log(&mut self, attempt: i32, segment: LogSegment) {
        let LogSegment { ends_at, stream, written_at, mut text } = segment;
        let begins_at = ends_at - i64::try_from(text.len()).unwrap_or(ends_at);
        let known = usize::try_from(self.seen(attempt) - begins_at).unwrap_or(0);
        // A forged id may point into the middle of a character.
        let known = (known..text.len()).find(|&at| text.is_char_boundary(at));
        let Some(known) = known else { return };
        text.drain(..known);
        self.push(
            EventId { attempt, seen: ends_at },
            (written_at, EventKind::Log { stream, text }),
        );
    }

    fn push(&mut self, id: EventId, (at, kind): (Micros, EventKind)) {
        self.last = Some(id);
        self.ready.push_back(Event { id, at, kind });
    }

    /// Bytes of this attempt's log that the subscriber has seen.
    fn seen(&self, attempt: i32) -> i64 {
        self.last.filter(|last| last.attempt == attempt).map_or(0, |last| last.seen)
    }

    async fn wait(&mut self) {
        let tick = tokio::time::sleep(self.runner.config.queue_tick);
        tokio::select! {
            () = self.waiter.notified() => {}
            () = tick => {}
            () = self.runner.closing.cancelled() => self.over = true,
        }
    }
}

fn state_event(row: &Execution) -> (Micros, EventKind) {
    match row.started_at {
        Some(started_at) if row.attempt > 0 => (started_at, EventKind::State(Status::Running)),
        _ => (row.created_at, EventKind::State(Status::Queued)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_to_themselves_and_are_ordered() {
        let ids = ["0.0", "0.end", "1.0", "1.17", "1.9000000000", "1.end", "2.0"];
        let parsed: Vec<EventId> = ids.iter().map(|id| id.parse().expect("an id")).collect();
        assert!(parsed.is_sorted_by(|one, next| one < next));
        assert_eq!(parsed.iter().map(ToString::to_string).collect::<Vec<_>>(), ids);
        for wrong in ["", "1", "1.", ".1", "a.b", "1.-1", "-1.1", "1.9223372036854775807", "1.2.3"]
        {
            assert!(wrong.parse::<EventId>().is_err(), "{wrong}");
        }
    }
}
