//! Each end of a run is reported with its true outcome.

use std::time::Duration;

use bytes::Bytes;
use language::Language;
use sandbox::{Control, GuestError, JobFile, Outcome};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Backend, MACHINE, MIB, RecordingSink, job, lacks_controls, on_every_backend, run, run_in, shape,
};

on_every_backend! {
    exit_codes_and_signals_are_those_of_the_script,
    unstartable_program_is_a_failed_run_with_a_message,
    failed_run_keeps_its_results,
    deadline_ends_a_run_and_keeps_its_results,
    cancelling_ends_a_run_and_keeps_its_results,
    run_cancelled_before_its_start_does_not_start,
    job_larger_than_the_disk_limit_is_disk_full,
    limits_that_a_script_survives_do_not_decide_its_outcome,
    resource_usage_is_measured,
    isolation_is_measured_in_the_guest,
    job_with_invalid_paths_is_rejected_before_anything_runs,
}

async fn exit_codes_and_signals_are_those_of_the_script(on: Backend) {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143)]
    {
        let (ran, _) = run(on, Language::Bash, &job(Language::Bash, script)).await;
        assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(code)), "{script}");
    }
}

async fn unstartable_program_is_a_failed_run_with_a_message(on: Backend) {
    for (program, code) in
        [("no-such-program", 127), ("/sandbox/nothing", 127), ("/sandbox/input.json", 126)]
    {
        let mut job = job(Language::Bash, "");
        job.argv = vec![program.into()];
        let (ran, kept) = run(on, Language::Bash, &job).await;
        assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(code)), "{program}");
        assert!(
            kept.text().starts_with(&format!("skillbox: cannot start {program}: ")),
            "{}",
            kept.text()
        );
    }
}

async fn failed_run_keeps_its_results(on: Backend) {
    let script =
        "echo '{}' > $SANDBOX_OUTPUT; echo x > $SANDBOX_FILES_DIR/kept; echo failing; exit 3";
    let (ran, kept) = run(on, Language::Bash, &job(Language::Bash, script)).await;
    assert_eq!(ran.exit_code, Some(3));
    assert_eq!(ran.output.as_deref(), Some(&b"{}\n"[..]));
    assert_eq!((kept.names(), kept.text().as_str()), (vec!["kept"], "failing\n"));
}

async fn deadline_ends_a_run_and_keeps_its_results(on: Backend) {
    let script = "echo '{}' > $SANDBOX_OUTPUT; echo before; trap '' TERM INT HUP; while :; do sleep 1000; done";
    let mut job = job(Language::Bash, script);
    // Bash starts and writes within this time, also under gVisor on a machine under load.
    job.timeout = Duration::from_secs(3);
    let (ran, kept) = run(on, Language::Bash, &job).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::TimedOut, Some(137)));
    assert_eq!(ran.output.as_deref(), Some(&b"{}\n"[..]));
    assert_eq!(kept.text(), "before\n");
    assert!(ran.usage.wall_ms >= 3000);
}

async fn cancelling_ends_a_run_and_keeps_its_results(on: Backend) {
    let _machine = MACHINE.read().await;
    let launcher = on.launcher().await;
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let stop = CancellationToken::new();
    // Cancelled by the first log bytes, so the script has started.
    let mut kept = RecordingSink::default();
    kept.stop_on_log = Some(stop.clone());
    let job = job(Language::Bash, "echo '[]' > $SANDBOX_OUTPUT; echo on; sleep 1000");
    let ran = guest.run(&job, stop, &mut kept).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Cancelled);
    assert_eq!(ran.output.as_deref(), Some(&b"[]\n"[..]));
}

async fn run_cancelled_before_its_start_does_not_start(on: Backend) {
    let _machine = MACHINE.read().await;
    let launcher = on.launcher().await;
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    let ran = guest
        .run(&job(Language::Bash, "echo on"), stop, &mut RecordingSink::default())
        .await
        .unwrap();
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Cancelled, None));
}

async fn job_larger_than_the_disk_limit_is_disk_full(on: Backend) {
    let mut job = job(Language::Bash, "");
    let bytes = Bytes::from(vec![7; 40 * MIB as usize]);
    job.files.push(JobFile { path: "/sandbox/input/big".into(), bytes, executable: false });
    let (ran, _) = run(on, Language::Bash, &job).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::DiskFull, None));
}

async fn limits_that_a_script_survives_do_not_decide_its_outcome(on: Backend) {
    let _machine = MACHINE.read().await;
    let launcher = on.launcher().await;
    let script = "head -c 100M /dev/zero > /tmp/full; sleep 0.2; rm /tmp/full; exit 0";
    let (ran, _) = run_in(&*launcher, &shape(Language::Bash), &job(Language::Bash, script)).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(0)));
    let failing = script.replace("exit 0", "exit 1");
    let (ran, _) = run_in(&*launcher, &shape(Language::Bash), &job(Language::Bash, &failing)).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::DiskFull, Some(1)));
}

async fn resource_usage_is_measured(on: Backend) {
    let _machine = MACHINE.read().await;
    let launcher = on.launcher().await;
    let script = "x = bytearray(40 << 20)\nimport time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n";
    let (ran, _) =
        run_in(&*launcher, &shape(Language::Python), &job(Language::Python, script)).await;
    assert!(ran.usage.cpu_ms >= 300 && ran.usage.wall_ms >= 300, "{:?}", ran.usage);
    assert!(ran.usage.peak_memory_bytes >= 40 * MIB, "{:?}", ran.usage);
}

async fn isolation_is_measured_in_the_guest(on: Backend) {
    let _machine = MACHINE.read().await;
    let launcher = on.launcher().await;
    if on == Backend::Native
        && lacks_controls(
            &*launcher,
            &[Control::MemoryLimit, Control::UniqueUid],
            "the full list of controls",
        )
        .await
    {
        return;
    }
    let (ran, _) = run_in(&*launcher, &shape(Language::Bash), &job(Language::Bash, "exit 0")).await;
    let isolation = ran.isolation;
    // Swap limits and Landlock depend on the kernel's configuration.
    let mut may_miss = vec![Control::SwapLimit];
    if !has_landlock() {
        may_miss.push(Control::Landlock);
    }
    match on {
        Backend::Native => {
            assert_eq!((isolation.backend, isolation.runtime.as_deref()), ("native", None))
        }
        Backend::Runc => {
            assert_eq!((isolation.backend, isolation.runtime.as_deref()), ("docker", Some("runc")));
            may_miss.extend([Control::UserNamespace, Control::UniqueUid]);
        }
        Backend::Runsc => {
            assert_eq!(
                (isolation.backend, isolation.runtime.as_deref()),
                ("docker", Some("runsc"))
            );
            assert_eq!(isolation.controls[&Control::PidNamespace], "gvisor");
            may_miss.extend([
                Control::UserNamespace,
                Control::UniqueUid,
                Control::ProcessLimit,
                Control::Landlock,
            ]);
        }
        Backend::Pod => {
            assert_eq!((isolation.backend, isolation.runtime.as_deref()), ("kubernetes", None));
            // Real nodes with control groups v1 show a pod where in their tree it is.
            may_miss.extend([Control::UserNamespace, Control::UniqueUid, Control::CgroupNamespace]);
            // Our stand-in of a node gives pods the machine's own `/usr`.
            may_miss.push(Control::PrivateInodes);
        }
    }
    let image = isolation.image.as_deref().unwrap_or_default();
    let known = match on {
        Backend::Native => image.is_empty(),
        // Nodes that got their images without a registry, as those of a real cluster for tests,
        // know only an id.
        Backend::Pod => image.starts_with("skillbox/bash@sha256:") || image.starts_with("sha256:"),
        Backend::Runc | Backend::Runsc => image.starts_with("sha256:"),
    };
    assert!(known, "{image}");
    let missing = isolation.missing();
    assert!(missing.iter().all(|control| may_miss.contains(control)), "{missing:?}");
}

/// Asks the kernel of this test rather than the sandbox under test.
fn has_landlock() -> bool {
    // SAFETY: with this flag the call reads no memory and answers with the version.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, 1) > 0 }
}

async fn job_with_invalid_paths_is_rejected_before_anything_runs(on: Backend) {
    let _machine = MACHINE.read().await;
    let launcher = on.launcher().await;
    for path in ["/etc/passwd", "/sandbox/../etc/x", "relative", "/tmp/x"] {
        let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
        let mut job = job(Language::Bash, "echo ran");
        job.files.push(crate::support::file(path, "x"));
        let mut kept = RecordingSink::default();
        let error = guest.run(&job, CancellationToken::new(), &mut kept).await.unwrap_err();
        assert!(matches!(error, GuestError::Setup { .. }), "{path}: {error}");
        assert!(kept.merged.is_empty());
    }
}
