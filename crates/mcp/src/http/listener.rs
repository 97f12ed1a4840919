//! Somebody who waits for an answer, and what follows when nobody does any more.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, StreamBody};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::sessions::Session;

/// The client of one request. Dropped before its answer's end it has gone away, as far as anybody
/// can tell.
pub struct Listener {
    gone: CancellationToken,
    /// With the returns of its client since this request: a connection may be found dead long after
    /// it is replaced.
    session: Option<(Arc<Session>, watch::Receiver<u64>)>,
    patience: Duration,
    answered: bool,
    /// Held until then by whoever waits for a result, and not by whoever only listens.
    _expects: Option<TaskTrackerToken>,
}

impl Listener {
    pub fn new(
        gone: CancellationToken,
        session: Option<Arc<Session>>,
        patience: Duration,
        expects: Option<TaskTrackerToken>,
    ) -> Listener {
        let session = session.map(|session| {
            let returns = session.returns();
            (session, returns)
        });
        Listener { gone, session, patience, answered: false, _expects: expects }
    }

    /// The same body, which holds its listener until its end.
    pub fn attend(self, body: BoxBody<Bytes, Infallible>) -> UnsyncBoxBody<Bytes, Infallible> {
        let frames = stream::unfold((body, self), |(mut body, mut listener)| async move {
            let frame = body.frame().await;
            listener.answered = frame.is_none();
            frame.map(|frame| (frame, (body, listener)))
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let (gone, patience) = (self.gone.clone(), self.patience);
        match (self.session.take(), Handle::try_current()) {
            (Some((session, mut returns)), Ok(runtime)) => drop(runtime.spawn(async move {
                // A session that is waited for is in use.
                let _in_use = session;
                tokio::select! {
                    biased;
                    Ok(()) = returns.changed() => {}
                    () = tokio::time::sleep(patience) => gone.cancel(),
                }
            })),
            _ => gone.cancel(),
        }
    }
}
