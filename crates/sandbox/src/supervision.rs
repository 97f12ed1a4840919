//! Drives one conversation under the clock: delivers the job, listens, stops it at its deadline or
//! on request.
//!
//! It never waits for a guest without a bound, and it does not kill: whoever called it does,
//! however it ended.

use std::time::Duration;

use guest::protocol::{ExitStatus, OutputStream, ToGuest};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::conversation::{Conversation, Event, Heard};
use crate::delivery::{self, Delivered};
use crate::guest::GuestError;
use crate::job::{Job, Sink, StreamMode};
use crate::judge::Ended;
use crate::wire::{Receiver, Sender, Whole};

/// A guest that has not placed its job and started it by then is broken.
const PLACING: Duration = Duration::from_secs(60);

/// How long a guest may make us wait from the end of the script to the last byte collected.
const COLLECTING: Duration = Duration::from_secs(10);

/// A guest with much to send earns more time by sending it, at a rate that the slowest of them can
/// keep. One that is sent much from a slow store has the same.
const CHUNK_TIME_PER_BYTE: Duration = Duration::from_micros(1);

/// A guest that was started listens; one that takes longer than this to hear five bytes does not.
const STOPPING: Duration = Duration::from_secs(1);

/// No deadline is further away, so that adding it to a clock cannot overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// One run, from its first byte to its last.
pub struct Supervision<'a> {
    receiver: &'a mut Receiver,
    sender: &'a mut Sender,
    job: &'a Job,
    stop: &'a CancellationToken,
    sink: &'a mut dyn Sink,
    conversation: Conversation,
    began: Instant,
    started: Option<Instant>,
    exited: Option<Instant>,
    /// Other than `ByItself` once we told the guest to stop.
    ended: Ended,
    /// When the present phase is over.
    until: Instant,
}

/// What one supervision saw.
pub struct Supervised {
    pub ended: Ended,
    pub heard: Heard,
    /// From the first byte of the job to the start of the process.
    pub started_after: Duration,
    /// From the start of the process to its end.
    pub wall: Duration,
}

/// What happened first.
enum Wake {
    Message(Whole),
    Vanished,
    TimeUp,
    Asked,
}

/// Whether there is more to listen to.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Over,
}

impl<'a> Supervision<'a> {
    pub fn new(
        (receiver, sender): (&'a mut Receiver, &'a mut Sender),
        job: &'a Job,
        stop: &'a CancellationToken,
        sink: &'a mut dyn Sink,
    ) -> Self {
        let began = Instant::now();
        Supervision {
            receiver,
            sender,
            job,
            stop,
            sink,
            conversation: Conversation::new(job.streams, job.output_limits),
            began,
            started: None,
            exited: None,
            ended: Ended::ByItself,
            until: began + PLACING + streaming_time(job),
        }
    }

    /// Runs the conversation to its end, or to the point where waiting longer is not allowed.
    pub async fn run(mut self) -> Result<Supervised, GuestError> {
        let mut flow = self.place().await?;
        while flow == Flow::On {
            let wake = self.wait().await?;
            flow = self.act(wake).await?;
        }
        let over = Instant::now();
        let started = self.started.or(self.exited).unwrap_or(over);
        Ok(Supervised {
            ended: self.ended,
            heard: self.conversation.end(),
            started_after: started - self.began,
            wall: self.exited.unwrap_or(over) - started,
        })
    }

    /// Sends the job while listening, because a guest that cannot place it says so and reads no
    /// further.
    async fn place(&mut self) -> Result<Flow, GuestError> {
        let wake = tokio::select! {
            biased;
            () = self.stop.cancelled() => Wake::Asked,
            delivered = delivery::deliver(self.sender, self.job) => match delivered? {
                Delivered::Whole | Delivered::BrokenOff => return Ok(Flow::On),
            },
            () = sleep_until(self.until) => Wake::TimeUp,
            next = self.receiver.next() => next.map(Wake::from)?,
        };
        self.act(wake).await
    }

    /// The clock comes first, so that a guest that never stops talking cannot outrun it.
    async fn wait(&mut self) -> Result<Wake, GuestError> {
        let running = self.running();
        tokio::select! {
            biased;
            () = self.stop.cancelled(), if running => Ok(Wake::Asked),
            () = sleep_until(self.until) => Ok(Wake::TimeUp),
            next = self.receiver.next() => Ok(next.map(Wake::from)?),
        }
    }

    async fn act(&mut self, wake: Wake) -> Result<Flow, GuestError> {
        match wake {
            Wake::Message(whole) => self.hear(whole).await,
            Wake::Vanished => Ok(Flow::Over),
            Wake::Asked => self.end(Ended::Request).await,
            Wake::TimeUp if self.running() && self.started.is_none() => {
                Err(GuestError::NotStarted(PLACING))
            }
            Wake::TimeUp if self.running() => self.end(Ended::Deadline).await,
            Wake::TimeUp => Ok(Flow::Over),
        }
    }

    /// Whether nothing but the script itself could have ended it so far.
    fn running(&self) -> bool {
        self.exited.is_none() && self.ended == Ended::ByItself
    }

    /// Tells the guest to stop the script and to collect; a script that never started has left
    /// nothing.
    async fn end(&mut self, why: Ended) -> Result<Flow, GuestError> {
        self.ended = why;
        if self.started.is_none() {
            return Ok(Flow::Over);
        }
        self.until = Instant::now() + COLLECTING;
        let sending = async {
            self.sender.send(&ToGuest::Stop).await?;
            self.sender.finish().await
        };
        // A guest that does not take it is killed when its time to collect is over.
        let _ = timeout(STOPPING, sending).await;
        Ok(Flow::On)
    }

    async fn hear(&mut self, whole: Whole) -> Result<Flow, GuestError> {
        let message = self.receiver.message(whole)?;
        let event =
            self.conversation.hear(message).map_err(|what| GuestError::Violation(what.into()))?;
        let heard_at = Instant::now();
        match event {
            Event::Nothing => {}
            Event::Started => {
                self.started = Some(heard_at);
                self.until = heard_at + self.job.timeout.min(LONGEST);
            }
            Event::Log { stream, bytes } => self.sink.log(stream, bytes).await,
            Event::Exited(status) => {
                self.exited = Some(heard_at);
                self.until = heard_at + COLLECTING;
                if let ExitStatus::NotStarted(errno) = status {
                    self.sink.log(self.own_stream(), self.not_started(errno).as_bytes()).await;
                }
            }
            Event::File { path, size } => {
                self.sink.file_start(path, size).await?;
                if size == 0 {
                    self.sink.file_end().await?;
                }
            }
            Event::Chunk { bytes, last } => {
                self.until += CHUNK_TIME_PER_BYTE * bytes.len() as u32;
                self.sink.file_chunk(bytes).await?;
                if last {
                    self.sink.file_end().await?;
                }
            }
            Event::NoRoom | Event::Done => return Ok(Flow::Over),
            Event::Failed { step, errno } => return Err(GuestError::setup(step, errno)),
        }
        if !self.running() {
            // What our own side took to store is not the guest's delay.
            self.until += heard_at.elapsed();
        }
        Ok(Flow::On)
    }

    fn own_stream(&self) -> OutputStream {
        match self.job.streams {
            StreamMode::Merged => OutputStream::Merged,
            StreamMode::Split => OutputStream::Stderr,
        }
    }

    fn not_started(&self, errno: i32) -> String {
        let program = self.job.argv.first().map_or("", String::as_str);
        format!("skillbox: cannot start {program}: {}\n", std::io::Error::from_raw_os_error(errno))
    }
}

fn streaming_time(job: &Job) -> Duration {
    let bytes: u64 = job.streamed.iter().map(|file| file.size).sum();
    CHUNK_TIME_PER_BYTE * u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl From<Option<Whole>> for Wake {
    fn from(next: Option<Whole>) -> Self {
        next.map_or(Wake::Vanished, Wake::Message)
    }
}
