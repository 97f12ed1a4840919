//! Each end of a run is named truthfully.

use std::time::Duration;

use bytes::Bytes;
use sandbox::{Control, GuestError, JobFile, Launcher, Outcome, Runtime};
use tokio_util::sync::CancellationToken;

use crate::support::{Kept, MACHINE, MIB, job, lacks, launcher, run, run_in, shape};

#[tokio::test]
async fn exit_codes_and_signals_are_the_scripts_own() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143)] {
        let (ran, _) = run(Runtime::Bash, &job(Runtime::Bash, script)).await;
        assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(code)), "{script}");
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_a_failed_run_with_a_reason() {
    for (program, code) in [("no-such-program", 127), ("/sandbox/nothing", 127), ("/sandbox/input.json", 126)] {
        let mut job = job(Runtime::Bash, "");
        job.argv = vec![program.into()];
        let (ran, kept) = run(Runtime::Bash, &job).await;
        assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(code)), "{program}");
        assert!(kept.text().starts_with(&format!("skillbox: cannot start {program}: ")), "{}", kept.text());
    }
}

#[tokio::test]
async fn results_of_a_failed_run_are_kept() {
    let script = "echo '{}' > $SANDBOX_OUTPUT; echo x > $SANDBOX_FILES_DIR/kept; echo failing; exit 3";
    let (ran, kept) = run(Runtime::Bash, &job(Runtime::Bash, script)).await;
    assert_eq!(ran.exit_code, Some(3));
    assert_eq!(ran.output.as_deref(), Some(&b"{}\n"[..]));
    assert_eq!((kept.names(), kept.text().as_str()), (vec!["kept"], "failing\n"));
}

#[tokio::test]
async fn the_deadline_ends_a_run_and_keeps_its_results() {
    let script = "echo '{}' > $SANDBOX_OUTPUT; echo before; trap '' TERM INT HUP; while :; do sleep 1000; done";
    let mut job = job(Runtime::Bash, script);
    job.timeout = Duration::from_millis(500);
    let (ran, kept) = run(Runtime::Bash, &job).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::TimedOut, Some(137)));
    assert_eq!(ran.output.as_deref(), Some(&b"{}\n"[..]));
    assert_eq!(kept.text(), "before\n");
    assert!(ran.usage.wall_ms >= 500);
}

#[tokio::test]
async fn a_request_ends_a_run_and_keeps_its_results() {
    let _machine = MACHINE.read().await;
    let launcher = launcher();
    let guest = launcher.launch(&shape(Runtime::Bash)).await.unwrap();
    let stop = CancellationToken::new();
    // The run itself says when it has started.
    let mut kept = Kept::default();
    kept.stop_on_log = Some(stop.clone());
    let job = job(Runtime::Bash, "echo '[]' > $SANDBOX_OUTPUT; echo on; sleep 1000");
    let ran = guest.run(&job, stop, &mut kept).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Cancelled);
    assert_eq!(ran.output.as_deref(), Some(&b"[]\n"[..]));
}

#[tokio::test]
async fn a_run_that_is_cancelled_before_it_starts_does_not_start() {
    let _machine = MACHINE.read().await;
    let launcher = launcher();
    let guest = launcher.launch(&shape(Runtime::Bash)).await.unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    let ran = guest.run(&job(Runtime::Bash, "echo on"), stop, &mut Kept::default()).await.unwrap();
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Cancelled, None));
}

#[tokio::test]
async fn a_job_that_does_not_fit_is_a_full_disk() {
    let mut job = job(Runtime::Bash, "");
    let bytes = Bytes::from(vec![7; 40 * MIB as usize]);
    job.files.push(JobFile { path: "/sandbox/input/big".into(), bytes, executable: false });
    let (ran, _) = run(Runtime::Bash, &job).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::DiskFull, None));
}

#[tokio::test]
async fn limits_that_a_script_survives_are_not_its_end() {
    let _machine = MACHINE.read().await;
    let launcher = launcher();
    let script = "head -c 100M /dev/zero > /tmp/full; sleep 0.2; rm /tmp/full; exit 0";
    let (ran, _) = run_in(&launcher, &shape(Runtime::Bash), &job(Runtime::Bash, script)).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(0)));
    let failing = script.replace("exit 0", "exit 1");
    let (ran, _) = run_in(&launcher, &shape(Runtime::Bash), &job(Runtime::Bash, &failing)).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::DiskFull, Some(1)));
}

#[tokio::test]
async fn usage_is_measured() {
    let _machine = MACHINE.read().await;
    let launcher = launcher();
    let script = "x = bytearray(40 << 20)\nimport time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n";
    let (ran, _) = run_in(&launcher, &shape(Runtime::Python), &job(Runtime::Python, script)).await;
    assert!(ran.usage.cpu_ms >= 300 && ran.usage.wall_ms >= 300, "{:?}", ran.usage);
    assert!(ran.usage.peak_memory_bytes >= 40 * MIB, "{:?}", ran.usage);
}

#[tokio::test]
async fn isolation_is_measured_in_the_guest() {
    let _machine = MACHINE.read().await;
    let launcher = launcher();
    let needs = [Control::MemoryLimit, Control::ProcessLimit, Control::UniqueUid];
    if lacks(&launcher, &needs, "the full list of controls").await {
        return;
    }
    let (ran, _) = run_in(&launcher, &shape(Runtime::Bash), &job(Runtime::Bash, "exit 0")).await;
    assert_eq!(ran.isolation.backend, "native");
    let missing = ran.isolation.missing();
    // Whether swap can be limited, and whether there is Landlock, depends on how the kernel was built.
    let optional: &[Control] =
        if has_landlock() { &[Control::SwapLimit] } else { &[Control::SwapLimit, Control::Landlock] };
    assert!(missing.iter().all(|control| optional.contains(control)), "{missing:?}");
}

/// Asks the kernel of this test rather than the sandbox under test.
fn has_landlock() -> bool {
    // SAFETY: with this flag the call reads no memory and answers with the version.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, 1) > 0 }
}

#[tokio::test]
async fn a_job_outside_the_contract_is_refused_before_anything_runs() {
    let _machine = MACHINE.read().await;
    let launcher = launcher();
    for path in ["/etc/passwd", "/sandbox/../etc/x", "relative", "/tmp/x"] {
        let guest = launcher.launch(&shape(Runtime::Bash)).await.unwrap();
        let mut job = job(Runtime::Bash, "echo ran");
        job.files.push(crate::support::file(path, "x"));
        let mut kept = Kept::default();
        let error = guest.run(&job, CancellationToken::new(), &mut kept).await.unwrap_err();
        assert!(matches!(error, GuestError::Setup { .. }), "{path}: {error}");
        assert!(kept.merged.is_empty());
    }
}
