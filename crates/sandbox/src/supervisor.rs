//! Runs one job on a guest under deadlines: sends the job, processes the guest's messages, and
//! stops the script at its deadline or on request.
//!
//! Every wait for a guest has a limit. The supervisor does not kill the sandbox: its caller does,
//! whatever the result.

use std::time::Duration;

use guest::protocol::{ExitStatus, OutputStream, ToGuest};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::classify::StopReason;
use crate::delivery;
use crate::guest_error::GuestError;
use crate::guest_report::{GuestEvent, GuestReport};
use crate::job::{Job, Sink, StreamMode};
use crate::protocol_state::ProtocolState;
use crate::wire::{FrameReady, Receiver, Sender};

/// The time for a guest to write the job's files and start the script.
const PLACE_TIMEOUT: Duration = Duration::from_secs(60);

/// The time from the end of the script to the last collected byte.
const COLLECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Extra time per byte of files, in both directions: for collecting a large result, and for a job
/// whose files come from a slow store. It corresponds to the slowest rate that is accepted.
const CHUNK_TIME_PER_BYTE: Duration = Duration::from_micros(1);

/// The time for a guest to read a stop request, which has five bytes.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The upper bound on a job's timeout, so that adding it to a clock cannot overflow.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The supervision of one run, from its first byte to its last.
pub(crate) struct Supervisor<'a> {
    receiver: &'a mut Receiver,
    sender: &'a mut Sender,
    job: &'a Job,
    stop: &'a CancellationToken,
    sink: &'a mut dyn Sink,
    protocol: ProtocolState,
    began: Instant,
    started: Option<Instant>,
    exited: Option<Instant>,
    /// Set when the supervisor decides to stop the script.
    stop_reason: StopReason,
    /// The deadline of the current phase.
    deadline: Instant,
}

/// The result of a supervised run.
pub(crate) struct SupervisedRun {
    pub stop_reason: StopReason,
    pub report: GuestReport,
    /// From the first byte of the job to the start of the process.
    pub startup_time: Duration,
    /// From the start of the process to its end.
    pub wall_time: Duration,
}

/// The reason why a wait ended.
enum Wake {
    Message(FrameReady),
    Disconnected,
    DeadlineReached,
    StopRequested,
}

/// Whether the run continues.
#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    Finished,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        (receiver, sender): (&'a mut Receiver, &'a mut Sender),
        job: &'a Job,
        stop: &'a CancellationToken,
        sink: &'a mut dyn Sink,
    ) -> Self {
        let began = Instant::now();
        Supervisor {
            receiver,
            sender,
            job,
            stop,
            sink,
            protocol: ProtocolState::new(job.streams, job.output_limits),
            began,
            started: None,
            exited: None,
            stop_reason: StopReason::NotStopped,
            deadline: began + PLACE_TIMEOUT + streaming_time(job),
        }
    }

    /// Runs until the guest is done, disconnects, or a deadline ends the wait for it.
    pub(crate) async fn run(mut self) -> Result<SupervisedRun, GuestError> {
        let mut flow = self.send_job().await?;
        while flow == Flow::Continue {
            let wake = self.wait().await?;
            flow = self.handle(wake).await?;
        }
        let finished = Instant::now();
        let started = self.started.or(self.exited).unwrap_or(finished);
        Ok(SupervisedRun {
            stop_reason: self.stop_reason,
            report: self.protocol.finish(),
            startup_time: started - self.began,
            wall_time: self.exited.unwrap_or(finished) - started,
        })
    }

    /// Sends the job and receives at the same time: a guest that cannot write a file reports that
    /// and reads no further, so that a sender that did not receive would block forever.
    async fn send_job(&mut self) -> Result<Flow, GuestError> {
        let wake = tokio::select! {
            biased;
            () = self.stop.cancelled() => Wake::StopRequested,
            sent = delivery::send_job(self.sender, self.job) => {
                // If the guest disconnected, its last message may still be in the buffer.
                sent?;
                return Ok(Flow::Continue);
            }
            () = sleep_until(self.deadline) => Wake::DeadlineReached,
            frame = self.receiver.next() => frame.map(Wake::from)?,
        };
        self.handle(wake).await
    }

    /// Waits for the next event. The deadline is checked before messages, so that a guest that
    /// never stops sending cannot postpone it.
    async fn wait(&mut self) -> Result<Wake, GuestError> {
        let running = self.is_running();
        tokio::select! {
            biased;
            () = self.stop.cancelled(), if running => Ok(Wake::StopRequested),
            () = sleep_until(self.deadline) => Ok(Wake::DeadlineReached),
            frame = self.receiver.next() => Ok(frame.map(Wake::from)?),
        }
    }

    async fn handle(&mut self, wake: Wake) -> Result<Flow, GuestError> {
        match wake {
            Wake::Message(frame) => self.handle_message(frame).await,
            Wake::Disconnected => Ok(Flow::Finished),
            Wake::StopRequested => self.stop_script(StopReason::Cancelled).await,
            // The guest never started the script: our failure, not the script's timeout.
            Wake::DeadlineReached if self.is_running() && self.started.is_none() => {
                Err(GuestError::NotStarted(PLACE_TIMEOUT))
            }
            Wake::DeadlineReached if self.is_running() => {
                self.stop_script(StopReason::Deadline).await
            }
            // The deadline for collecting: keep what has arrived.
            Wake::DeadlineReached => Ok(Flow::Finished),
        }
    }

    /// Whether the script has neither ended nor been stopped.
    fn is_running(&self) -> bool {
        self.exited.is_none() && self.stop_reason == StopReason::NotStopped
    }

    /// Requests that the guest stop the script and collect. A script that never started has no
    /// results to collect.
    async fn stop_script(&mut self, reason: StopReason) -> Result<Flow, GuestError> {
        self.stop_reason = reason;
        if self.started.is_none() {
            return Ok(Flow::Finished);
        }
        self.deadline = Instant::now() + COLLECT_TIMEOUT;
        let sending = async {
            self.sender.send(&ToGuest::Stop).await?;
            self.sender.finish().await
        };
        // A guest that does not read the request is killed when the time for collecting is over.
        let _ = timeout(STOP_TIMEOUT, sending).await;
        Ok(Flow::Continue)
    }

    async fn handle_message(&mut self, frame: FrameReady) -> Result<Flow, GuestError> {
        let message = self.receiver.message(frame)?;
        let event = self
            .protocol
            .receive(message)
            .map_err(|violation| GuestError::Violation(violation.into()))?;
        let received_at = Instant::now();
        match event {
            GuestEvent::Recorded => {}
            GuestEvent::Started => {
                self.started = Some(received_at);
                self.deadline = received_at + self.job.timeout.min(MAX_TIMEOUT);
            }
            GuestEvent::Log { stream, bytes } => self.sink.log(stream, bytes).await,
            GuestEvent::Exited(status) => {
                self.exited = Some(received_at);
                self.deadline = received_at + COLLECT_TIMEOUT;
                if let ExitStatus::NotStarted(errno) = status {
                    let message = self.start_error(errno);
                    self.sink.log(self.error_stream(), message.as_bytes()).await;
                }
            }
            GuestEvent::File { path, size } => {
                self.sink.file_start(path, size).await?;
                if size == 0 {
                    self.sink.file_end().await?;
                }
            }
            GuestEvent::Chunk { bytes, last } => {
                self.deadline += CHUNK_TIME_PER_BYTE * bytes.len() as u32;
                self.sink.file_chunk(bytes).await?;
                if last {
                    self.sink.file_end().await?;
                }
            }
            GuestEvent::JobTooLarge | GuestEvent::Done => return Ok(Flow::Finished),
            GuestEvent::Failed { step, errno } => return Err(GuestError::setup(step, errno)),
        }
        if !self.is_running() {
            // While collecting, time that our own sink took does not count against the guest.
            self.deadline += received_at.elapsed();
        }
        Ok(Flow::Continue)
    }

    fn error_stream(&self) -> OutputStream {
        match self.job.streams {
            StreamMode::Merged => OutputStream::Merged,
            StreamMode::Split => OutputStream::Stderr,
        }
    }

    fn start_error(&self, errno: i32) -> String {
        let program = self.job.argv.first().map_or("", String::as_str);
        format!("skillbox: cannot start {program}: {}\n", std::io::Error::from_raw_os_error(errno))
    }
}

fn streaming_time(job: &Job) -> Duration {
    let bytes: u64 = job.streamed.iter().map(|file| file.size).sum();
    CHUNK_TIME_PER_BYTE * u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl From<Option<FrameReady>> for Wake {
    fn from(frame: Option<FrameReady>) -> Self {
        frame.map_or(Wake::Disconnected, Wake::Message)
    }
}
