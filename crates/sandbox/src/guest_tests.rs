//! FrameReady runs against guests that are played by the test, over a stream in memory and with a
//! clock of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use guest::frame::{self, MAX_FROM_GUEST};
use guest::protocol::{ExitStatus, OutputStream};
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::fake_guest::{
    FakeGuest, FakeHandle, NONE, OOM, RecordingSink, SHAPE, job, no_isolation, ready, run, run_with,
};
use crate::outcome::Outcome;

#[tokio::test(start_paused = true)]
async fn report_has_everything_the_guest_sent() {
    let played = run(job(), NONE, |mut peer| async move {
        assert!(peer.receive().await.is_some_and(|message| message.starts_with("File")));
        assert_eq!(peer.receive().await.as_deref(), Some("Chunk([97, 98, 99])"));
        peer.start().await;
        peer.send(&FromGuest::Log { stream: OutputStream::Merged, bytes: b"hi\n" }).await;
        peer.exit(ExitStatus::Code(2)).await;
        peer.send(&FromGuest::Output { size: 2 }).await;
        peer.send(&FromGuest::Chunk(b"{}")).await;
        peer.send(&FromGuest::File { path: "a", size: 1 }).await;
        peer.send(&FromGuest::Chunk(b"A")).await;
        peer.send(&FromGuest::Done).await;
        peer.idle().await;
    })
    .await;
    let ran = played.ran.expect("nothing failed");
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(2)));
    assert_eq!(ran.output.as_deref(), Some(&b"{}"[..]));
    assert_eq!((ran.usage.bytes_in, ran.usage.bytes_out, ran.usage.cpu_ms), (3, 6, 2));
    assert_eq!((&played.sink.logs[..], &played.sink.files["a"][..]), (&b"hi\n"[..], &b"A"[..]));
    assert!(played.sink.open.is_none() && played.kills > 0);
}

#[tokio::test(start_paused = true)]
async fn deadline_stops_the_script_and_collects() {
    let played = run(job(), NONE, |mut peer| async move {
        peer.start().await;
        assert_eq!(peer.receive().await.as_deref(), Some("Stop"));
        peer.exit(ExitStatus::Signal(9)).await;
        peer.send(&FromGuest::Output { size: 1 }).await;
        peer.send(&FromGuest::Chunk(b"1")).await;
        peer.send(&FromGuest::Done).await;
        peer.idle().await;
    })
    .await;
    let ran = played.ran.expect("nothing failed");
    assert_eq!((ran.outcome, ran.usage.wall_ms), (Outcome::TimedOut, 5000));
    assert_eq!(ran.output.as_deref(), Some(&b"1"[..]));
}

#[tokio::test(start_paused = true)]
async fn guest_that_ignores_stop_is_killed_after_the_grace_period() {
    let played = run(job(), NONE, |mut peer| async move {
        peer.start().await;
        peer.send(&FromGuest::Log { stream: OutputStream::Merged, bytes: b"sink" }).await;
        peer.idle().await;
    })
    .await;
    let ran = played.ran.expect("nothing failed");
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::TimedOut, None));
    assert_eq!(played.sink.logs, b"sink");
}

#[tokio::test(start_paused = true)]
async fn guest_that_sends_without_end_does_not_postpone_the_deadline() {
    let mut endless = job();
    endless.output_limits.log_bytes = u64::MAX;
    let played = run(endless, NONE, |mut peer| async move {
        peer.start().await;
        let mut bytes = Vec::new();
        frame::encode(
            &FromGuest::Log { stream: OutputStream::Merged, bytes: b"x" },
            MAX_FROM_GUEST,
            &mut bytes,
        )
        .expect("it fits");
        // Each word takes a moment, and there is always a next one.
        while peer.0.write_all(&bytes).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert_eq!(played.ran.expect("nothing failed").outcome, Outcome::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn slow_collecting_is_cut_off() {
    let played = run(job(), NONE, |mut peer| async move {
        peer.start().await;
        peer.exit(ExitStatus::Code(0)).await;
        peer.send(&FromGuest::File { path: "slow", size: 900 }).await;
        for _ in 0..900 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            peer.send(&FromGuest::Chunk(b"x")).await;
        }
    })
    .await;
    let ran = played.ran.expect("nothing failed");
    assert_eq!(ran.outcome, Outcome::Lost);
    assert!(played.sink.open.is_some(), "a file that never ended must look like one");
}

#[tokio::test(start_paused = true)]
async fn cancelling_stops_the_script_and_collects() {
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    let played = run_with(job(), NONE, stop, RecordingSink::default(), |mut peer| async move {
        peer.start().await;
        // The clock stands until the host has report of the start.
        tokio::time::sleep(Duration::from_millis(1)).await;
        cancel.cancel();
        assert_eq!(peer.receive().await.as_deref(), Some("Stop"));
        peer.exit(ExitStatus::Signal(9)).await;
        peer.send(&FromGuest::Done).await;
        peer.idle().await;
    })
    .await;
    assert_eq!(played.ran.expect("nothing failed").outcome, Outcome::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn disconnected_guest_is_lost_or_out_of_memory() {
    let leave = |mut peer: FakeGuest| async move { peer.start().await };
    assert_eq!(run(job(), NONE, leave).await.ran.expect("nothing failed").outcome, Outcome::Lost);
    assert_eq!(
        run(job(), OOM, leave).await.ran.expect("nothing failed").outcome,
        Outcome::OutOfMemory
    );
}

#[tokio::test(start_paused = true)]
async fn disconnect_before_the_script_starts_is_an_error() {
    let leave = |peer: FakeGuest| async move { drop(peer) };
    assert!(matches!(run(job(), NONE, leave).await.ran, Err(GuestError::Disconnected)));
    assert_eq!(
        run(job(), OOM, leave).await.ran.expect("nothing failed").outcome,
        Outcome::OutOfMemory
    );
    let played = run(job(), NONE, |mut peer| async move { peer.receive_until_run().await }).await;
    assert!(matches!(played.ran, Err(GuestError::Disconnected)));
}

/// A sandbox that its backend saw end from outside.
struct TakenAway(ExternalEnd);

#[async_trait]
impl GuestHandle for TakenAway {
    fn kill(&mut self) {}

    async fn wait_until_removed(&mut self) -> Counters {
        NONE
    }

    fn external_end(&self) -> Option<ExternalEnd> {
        Some(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn external_end_before_the_script_starts_is_reported_with_its_cause() {
    let evicted = ExternalEnd { outcome: Outcome::Lost, cause: Some("its pod was evicted") };
    let full = ExternalEnd { outcome: Outcome::DiskFull, cause: None };
    let unknown = ExternalEnd { outcome: Outcome::Lost, cause: None };
    for by in [evicted, full, unknown] {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let mut peer = FakeGuest(theirs);
        peer.send(&ready()).await;
        let (handle, within) = (Box::new(TakenAway(by)), Duration::from_secs(1));
        let guest =
            Guest::connect(ours, handle, SHAPE, within, no_isolation).await.expect("it is ready");
        let (job, mut sink) = (job(), RecordingSink::default());
        let (ran, ()) = tokio::join!(guest.run(&job, CancellationToken::new(), &mut sink), async {
            drop(peer)
        });
        match ran {
            Ok(ran) => assert!(
                by != unknown && (ran.outcome, ran.cause) == (by.outcome, by.cause),
                "{by:?}"
            ),
            Err(error) => {
                assert!(
                    by == unknown && matches!(error, GuestError::Disconnected),
                    "{by:?}: {error}"
                )
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn guest_that_never_starts_the_job_times_out() {
    let played = run(job(), NONE, FakeGuest::idle).await;
    assert!(matches!(played.ran, Err(GuestError::NotStarted(_))));
    // The same when it does not even read.
    let mut large = job();
    large.stdin = Some(Bytes::from(vec![0; 1 << 20]));
    let played = run(large, NONE, |peer| async move {
        tokio::time::sleep(Duration::from_secs(100)).await;
        drop(peer);
    })
    .await;
    assert!(matches!(played.ran, Err(GuestError::NotStarted(_))));
    assert!(played.kills > 0);
}

#[tokio::test(start_paused = true)]
async fn failure_is_received_while_a_large_job_is_sent() {
    let mut large = job();
    large.stdin = Some(Bytes::from(vec![0; 1 << 20]));
    for (errno, job_too_large) in [(libc::EIO, false), (libc::ENOSPC, true)] {
        let played = run(large.clone(), NONE, |mut peer| async move {
            peer.receive().await;
            peer.send(&FromGuest::Failed { step: "write\n\u{1b}[2J", errno }).await;
            tokio::time::sleep(Duration::from_secs(100)).await;
        })
        .await;
        match played.ran {
            Ok(ran) => assert!(job_too_large && ran.outcome == Outcome::DiskFull),
            Err(GuestError::Setup { step, source }) => {
                assert_eq!((step.as_str(), source.raw_os_error()), ("write[2J", Some(errno)));
                assert!(!job_too_large);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn protocol_violations_kill_the_guest() {
    let played = run(job(), NONE, |mut peer| async move {
        peer.start().await;
        peer.send(&FromGuest::Done).await;
        peer.idle().await;
    })
    .await;
    assert!(matches!(played.ran, Err(GuestError::Violation(_))));
    assert!(played.kills > 0);
    let too_long = (MAX_FROM_GUEST as u32 + 1).to_le_bytes();
    let malformed = [1, 0, 0, 0, 0xff];
    for bytes in [&too_long[..], &malformed[..]] {
        let played = run(job(), NONE, |mut peer| async move {
            peer.start().await;
            peer.0.write_all(bytes).await.expect("the host listens");
            peer.idle().await;
        })
        .await;
        assert!(matches!(played.ran, Err(GuestError::Violation(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn failing_sink_ends_the_run_with_an_error() {
    let sink = RecordingSink { refuse: true, ..RecordingSink::default() };
    let played = run_with(job(), NONE, CancellationToken::new(), sink, |mut peer| async move {
        peer.start().await;
        peer.exit(ExitStatus::Code(0)).await;
        peer.send(&FromGuest::File { path: "a", size: 0 }).await;
        peer.idle().await;
    })
    .await;
    assert!(matches!(played.ran, Err(GuestError::Sink(_))));
    assert!(played.kills > 0);
}

#[tokio::test(start_paused = true)]
async fn invalid_jobs_are_rejected_and_the_guest_is_killed() {
    let no_program = Job { argv: vec![], ..job() };
    let nul = Job { argv: vec!["a\0b".into()], ..job() };
    let path = Job { env: vec![("PATH".into(), "/".into())], ..job() };
    let sign = Job { env: vec![("A=B".into(), "c".into())], ..job() };
    let too_long = Job { env: vec![("A".into(), "x".repeat(5 << 20))], ..job() };
    for job in [no_program, nul, path, sign, too_long] {
        let played = run(job, NONE, FakeGuest::idle).await;
        assert!(matches!(played.ran, Err(GuestError::Job(_))));
        assert!(played.kills > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn guest_that_does_not_become_ready_is_killed() {
    let connect = |say: Option<FromGuest<'static>>, leave: bool| async move {
        let (ours, theirs) = tokio::io::duplex(4096);
        let kills = Arc::new(AtomicUsize::new(0));
        let handle = Box::new(FakeHandle { kills: kills.clone(), counters: NONE });
        let mut peer = FakeGuest(theirs);
        if let Some(message) = say {
            peer.send(&message).await;
        }
        let peer = (!leave).then_some(peer);
        let connected =
            Guest::connect(ours, handle, SHAPE, Duration::from_secs(1), no_isolation).await;
        assert!(kills.load(Ordering::SeqCst) > 0);
        drop(peer);
        connected.err().expect("it must fail")
    };
    assert!(matches!(connect(None, false).await, GuestError::NotReady(_)));
    assert!(matches!(connect(None, true).await, GuestError::Disconnected));
    assert!(matches!(connect(Some(FromGuest::Done), false).await, GuestError::Violation(_)));
    let failed = FromGuest::Failed { step: "seccomp", errno: libc::EPERM };
    assert!(
        matches!(connect(Some(failed), false).await, GuestError::Setup { step, .. } if step == "seccomp")
    );
}

#[tokio::test(start_paused = true)]
async fn dropping_a_guest_kills_it() {
    let (ours, theirs) = tokio::io::duplex(4096);
    let kills = Arc::new(AtomicUsize::new(0));
    let handle = Box::new(FakeHandle { kills: kills.clone(), counters: NONE });
    let mut peer = FakeGuest(theirs);
    peer.send(&ready()).await;
    drop(
        Guest::connect(ours, handle, SHAPE, Duration::from_secs(1), no_isolation)
            .await
            .expect("it is ready"),
    );
    assert_eq!(kills.load(Ordering::SeqCst), 1);
}

/// A sandbox that the kernel does not let go of.
struct Stuck;

#[async_trait]
impl GuestHandle for Stuck {
    fn kill(&mut self) {}

    async fn wait_until_removed(&mut self) -> Counters {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn unkillable_sandbox_does_not_block_the_end_of_its_run() {
    let (ours, theirs) = tokio::io::duplex(4096);
    let mut peer = FakeGuest(theirs);
    peer.send(&ready()).await;
    let guest = Guest::connect(ours, Box::new(Stuck), SHAPE, Duration::from_secs(1), no_isolation)
        .await
        .expect("it is ready");
    let (job, mut sink) = (job(), RecordingSink::default());
    let run = guest.run(&job, CancellationToken::new(), &mut sink);
    let (ran, ()) = tokio::join!(run, async move {
        peer.start().await;
        peer.idle().await;
    });
    assert_eq!(ran.expect("nothing failed").outcome, Outcome::TimedOut);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_always_end_a_run(bytes in proptest::collection::vec(any::<u8>(), 0..400), started in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let played = runtime.expect("a runtime").block_on(run(job(), NONE, |mut peer| async move {
            if started {
                peer.start().await;
            }
            let _ = peer.0.write_all(&bytes).await;
            peer.idle().await;
        }));
        prop_assert!(played.kills > 0);
        if let Ok(ran) = played.ran {
            prop_assert!(ran.outcome != Outcome::Exited || ran.exit_code.is_some());
        }
    }
}
