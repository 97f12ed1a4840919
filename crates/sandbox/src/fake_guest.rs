//! A fake guest for tests: its side of the stream, a handle that counts kills, and a sink that
//! records everything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use guest::frame::{self, MAX_FROM_GUEST};
use guest::jail::{Counters, SandboxNetwork};
use guest::protocol::{ExitReport, ExitStatus, FromGuest, Measurements, OutputStream, ToGuest};
use language::Language;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;

use crate::guest::{Guest, GuestHandle};
use crate::guest_error::GuestError;
use crate::isolation::Isolation;
use crate::job::{Job, JobFile, OutputLimits, Sink, SinkError, StreamMode};
use crate::launcher::Shape;
use crate::outcome::RunReport;

pub(crate) const SHAPE: Shape = Shape {
    language: Language::Bash,
    image: None,
    memory_bytes: 0,
    cpu_millis: 0,
    pids: 0,
    disk_bytes: 0,
    disk_inodes: 0,
};

/// A handle without a sandbox that counts kills.
pub(crate) struct FakeHandle {
    pub kills: Arc<AtomicUsize>,
    pub counters: Counters,
}

#[async_trait]
impl GuestHandle for FakeHandle {
    fn kill(&mut self) {
        self.kills.fetch_add(1, Ordering::SeqCst);
    }

    async fn wait_until_removed(&mut self) -> Counters {
        assert!(
            self.kills.load(Ordering::SeqCst) > 0,
            "the sandbox is killed before it is waited for"
        );
        self.counters
    }
}

/// The guest's side of the stream.
pub(crate) struct FakeGuest(pub DuplexStream);

impl FakeGuest {
    pub(crate) async fn send(&mut self, message: &FromGuest<'_>) {
        let mut bytes = Vec::new();
        frame::encode(message, MAX_FROM_GUEST, &mut bytes).expect("it fits");
        // Fails when the host has disconnected.
        let _ = self.0.write_all(&bytes).await;
    }

    /// The next message, as text; `None` when the host has disconnected.
    pub(crate) async fn receive(&mut self) -> Option<String> {
        let mut header = [0; 4];
        self.0.read_exact(&mut header).await.ok()?;
        let mut body = vec![0; u32::from_le_bytes(header) as usize];
        self.0.read_exact(&mut body).await.ok()?;
        Some(format!(
            "{:?}",
            frame::decode::<ToGuest<'_>>(&body).expect("the host follows the protocol")
        ))
    }

    pub(crate) async fn receive_until_run(&mut self) {
        while self.receive().await.is_some_and(|message| !message.starts_with("Run")) {}
    }

    pub(crate) async fn start(&mut self) {
        self.receive_until_run().await;
        self.send(&FromGuest::Started).await;
    }

    pub(crate) async fn exit(&mut self, status: ExitStatus) {
        self.send(&FromGuest::Exit(ExitReport {
            status,
            disk_full: false,
            log_bytes_dropped: 0,
            counters: None,
        }))
        .await;
    }

    /// Reads messages until the host disconnects.
    pub(crate) async fn idle(mut self) {
        while self.receive().await.is_some() {}
    }
}

#[derive(Default)]
pub(crate) struct RecordingSink {
    pub logs: Vec<u8>,
    pub files: BTreeMap<String, Vec<u8>>,
    pub open: Option<String>,
    pub refuse: bool,
}

#[async_trait]
impl Sink for RecordingSink {
    async fn log(&mut self, _: OutputStream, bytes: &[u8]) {
        self.logs.extend_from_slice(bytes);
    }

    async fn file_start(&mut self, path: &str, _: u64) -> Result<(), SinkError> {
        self.open = Some(path.to_owned());
        self.files.insert(path.to_owned(), Vec::new());
        if self.refuse { Err(SinkError("the store is full".into())) } else { Ok(()) }
    }

    async fn file_chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let path = self.open.as_ref().expect("a chunk of an open file");
        self.files.get_mut(path).expect("it was made").extend_from_slice(bytes);
        Ok(())
    }

    async fn file_end(&mut self) -> Result<(), SinkError> {
        self.open.take().map(drop).ok_or(SinkError("no file is open".into()))
    }
}

pub(crate) fn job() -> Job {
    Job {
        files: vec![JobFile {
            path: "/sandbox/a".into(),
            bytes: Bytes::from_static(b"abc"),
            executable: false,
        }],
        streamed: Vec::new(),
        links: vec![],
        argv: vec!["program".into()],
        env: vec![],
        cwd: "/".into(),
        stdin: None,
        streams: StreamMode::Merged,
        output_limits: OutputLimits {
            log_bytes: 100,
            output_bytes: 100,
            artifact_bytes: 1000,
            artifact_files: 10,
        },
        timeout: Duration::from_secs(5),
    }
}

/// The results of a run with a fake guest.
pub(crate) struct FakeRun {
    pub ran: Result<RunReport, GuestError>,
    pub sink: RecordingSink,
    pub kills: usize,
}

/// Runs a job on a guest that is ready and then behaves as `script` does.
pub(crate) async fn run<F: Future<Output = ()>>(
    job: Job,
    counters: Counters,
    script: impl FnOnce(FakeGuest) -> F,
) -> FakeRun {
    run_with(job, counters, CancellationToken::new(), RecordingSink::default(), script).await
}

pub(crate) async fn run_with<F: Future<Output = ()>>(
    job: Job,
    counters: Counters,
    stop: CancellationToken,
    mut sink: RecordingSink,
    script: impl FnOnce(FakeGuest) -> F,
) -> FakeRun {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let kills = Arc::new(AtomicUsize::new(0));
    let handle = Box::new(FakeHandle { kills: kills.clone(), counters });
    let mut guest_side = FakeGuest(theirs);
    guest_side.send(&ready()).await;
    let guest = Guest::connect(ours, handle, SHAPE, Duration::from_secs(1), no_isolation)
        .await
        .expect("it is ready");
    let host = guest.run(&job, stop, &mut sink);
    let (ran, ()) = tokio::join!(host, script(guest_side));
    FakeRun { ran, sink, kills: kills.load(Ordering::SeqCst) }
}

pub(crate) fn ready() -> FromGuest<'static> {
    FromGuest::Ready(Measurements {
        uid: 1000,
        gid: 1000,
        capabilities: 0,
        no_new_privileges: true,
        seccomp: 2,
        landlock: Some(7),
        namespaces: vec![("pid", 1)],
        root_read_only: true,
        scratch_bytes: 1,
        scratch_inodes: 1,
        cgroup: None,
        gvisor: false,
        observes_connects: true,
        routes: false,
        sockets: true,
        private_inodes: true,
    })
}

pub(crate) fn no_isolation(_: &Measurements<'_>) -> Isolation {
    Isolation {
        backend: "fake",
        runtime: None,
        image: None,
        network: SandboxNetwork::Own,
        controls: BTreeMap::new(),
    }
}

pub(crate) const NONE: Counters =
    Counters { cpu_micros: 2000, peak_memory_bytes: 3, oom_kills: 0, forks_refused: 0 };
pub(crate) const OOM: Counters = Counters { oom_kills: 1, ..NONE };
