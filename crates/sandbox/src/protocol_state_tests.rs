//! Protocol violations of a guest, and proof that no sequence of messages exceeds the limits.

use guest::frame;
use guest::protocol::ConnectCall;
use proptest::prelude::*;

use super::*;

const CAPS: OutputLimits =
    OutputLimits { log_bytes: 10, output_bytes: 8, artifact_bytes: 100, artifact_files: 3 };

const EXIT: FromGuest<'static> = exit(ExitStatus::Code(0));

const fn exit(status: ExitStatus) -> FromGuest<'static> {
    FromGuest::Exit(ExitReport { status, disk_full: false, log_bytes_dropped: 0, counters: None })
}

fn log(bytes: &[u8]) -> FromGuest<'_> {
    FromGuest::Log { stream: OutputStream::Merged, bytes }
}

fn file(path: &str, size: u64) -> FromGuest<'_> {
    FromGuest::File { path, size }
}

/// Receives all messages; returns the report, or the first violation.
fn receive_all(messages: &[FromGuest<'_>]) -> Result<GuestReport, ProtocolViolation> {
    let mut conversation = ProtocolState::new(StreamMode::Merged, CAPS);
    for message in messages {
        conversation.receive(message.clone())?;
    }
    Ok(conversation.finish())
}

/// The same after a proper start and end of the script.
fn collect(messages: &[FromGuest<'_>]) -> Result<GuestReport, ProtocolViolation> {
    receive_all(&[&[FromGuest::Started, EXIT], messages].concat())
}

#[test]
fn accepts_a_complete_run() {
    let mut conversation = ProtocolState::new(StreamMode::Merged, CAPS);
    let mut next = |message| conversation.receive(message).expect("it is in order");
    assert_eq!(next(FromGuest::Started), GuestEvent::Started);
    assert_eq!(
        next(log(b"hello")),
        GuestEvent::Log { stream: OutputStream::Merged, bytes: b"hello" }
    );
    assert_eq!(next(EXIT), GuestEvent::Exited(ExitStatus::Code(0)));
    assert_eq!(next(FromGuest::Output { size: 2 }), GuestEvent::Recorded);
    assert_eq!(next(FromGuest::Chunk(b"{")), GuestEvent::Recorded);
    assert_eq!(next(FromGuest::Chunk(b"}")), GuestEvent::Recorded);
    assert_eq!(next(file("a/b", 3)), GuestEvent::File { path: "a/b", size: 3 });
    assert_eq!(next(FromGuest::Chunk(b"xy")), GuestEvent::Chunk { bytes: b"xy", last: false });
    assert_eq!(next(FromGuest::Chunk(b"z")), GuestEvent::Chunk { bytes: b"z", last: true });
    assert_eq!(next(file("empty", 0)), GuestEvent::File { path: "empty", size: 0 });
    assert_eq!(
        next(FromGuest::Skipped { path: "link", reason: SkipReason::SymbolicLink }),
        GuestEvent::Recorded
    );
    assert_eq!(next(FromGuest::Done), GuestEvent::Done);
    let report = conversation.finish();
    assert!(report.started && report.done && !report.output_too_large);
    assert_eq!(report.output.as_deref(), Some(&b"{}"[..]));
    assert_eq!(
        report.skipped,
        [SkippedFile { path: "link".into(), reason: "symbolic link".into() }]
    );
    assert_eq!(report.bytes_out, 5 + 2 + 3);
}

#[test]
fn script_that_cannot_start_never_started() {
    let report =
        receive_all(&[exit(ExitStatus::NotStarted(2)), FromGuest::Done]).expect("it is in order");
    assert!(!report.started && report.done);
}

#[test]
fn rejects_messages_out_of_order() {
    let ready = || {
        FromGuest::Ready(guest::protocol::Measurements {
            uid: 0,
            gid: 0,
            capabilities: 0,
            no_new_privileges: true,
            seccomp: 2,
            landlock: None,
            namespaces: vec![],
            root_read_only: true,
            scratch_bytes: 0,
            scratch_inodes: 0,
            cgroup: None,
            gvisor: false,
            observes_connects: false,
            routes: false,
            sockets: true,
            private_inodes: false,
        })
    };
    let failed = || FromGuest::Failed { step: "x", errno: 1 };
    let not_started = exit(ExitStatus::NotStarted(2));
    let any =
        [ready(), FromGuest::Started, log(b"x"), EXIT, FromGuest::Output { size: 1 }, file("a", 1)];
    let rest = [
        FromGuest::Chunk(b"x"),
        FromGuest::Skipped { path: "a", reason: SkipReason::Name },
        FromGuest::Done,
        failed(),
    ];
    let refused_after = |before: &[FromGuest<'static>], allowed: fn(&FromGuest<'_>) -> bool| {
        for message in any.iter().chain(&rest).chain([&not_started]) {
            let report = receive_all(&[before, std::slice::from_ref(message)].concat());
            assert_eq!(report.is_ok(), allowed(message), "{before:?} then {message:?}");
        }
    };
    use FromGuest::*;
    refused_after(&[], |message| match message {
        Exit(exit) => matches!(exit.status, ExitStatus::NotStarted(_)),
        other => matches!(other, Started | Failed { .. }),
    });
    refused_after(&[Started], |message| match message {
        Exit(exit) => !matches!(exit.status, ExitStatus::NotStarted(_)),
        other => matches!(other, Log { .. }),
    });
    refused_after(&[Started, EXIT], |message| {
        matches!(message, Output { .. } | File { .. } | Skipped { .. } | Done)
    });
    refused_after(&[Started, EXIT, Output { size: 2 }], |message| matches!(message, Chunk(_)));
    refused_after(&[Started, EXIT, Done], |_| false);
    refused_after(&[failed()], |_| false);
}

#[test]
fn rejects_logs_above_the_limit_or_of_other_streams() {
    assert!(receive_all(&[FromGuest::Started, log(b"12345"), log(b"67890")]).is_ok());
    assert_eq!(
        receive_all(&[FromGuest::Started, log(b"12345"), log(b"678901")]).err(),
        Some("more log bytes than allowed")
    );
    assert_eq!(receive_all(&[FromGuest::Started, log(b"")]).err(), Some("empty log"));
    for (streams, stream, fits) in [
        (StreamMode::Merged, OutputStream::Stdout, false),
        (StreamMode::Merged, OutputStream::Merged, true),
        (StreamMode::Split, OutputStream::Merged, false),
        (StreamMode::Split, OutputStream::Stderr, true),
    ] {
        let mut conversation = ProtocolState::new(streams, CAPS);
        conversation.receive(FromGuest::Started).expect("it is in order");
        assert_eq!(conversation.receive(FromGuest::Log { stream, bytes: b"x" }).is_ok(), fits);
    }
}

#[test]
fn rejects_impossible_exit_statuses() {
    for status in [
        ExitStatus::Code(-1),
        ExitStatus::Code(256),
        ExitStatus::Signal(0),
        ExitStatus::Signal(i32::MAX),
    ] {
        assert!(receive_all(&[FromGuest::Started, exit(status)]).is_err(), "{status:?}");
    }
    assert!(receive_all(&[exit(ExitStatus::NotStarted(0))]).is_err());
}

#[test]
fn output_is_limited_and_sent_once_and_completely() {
    let large = collect(&[FromGuest::Output { size: 9 }, FromGuest::Done])
        .expect("its size alone is no offence");
    assert!(large.output_too_large && large.output.is_none());
    let output = FromGuest::Output { size: 2 };
    assert!(collect(&[FromGuest::Output { size: 9 }, FromGuest::Chunk(b"x")]).is_err());
    assert!(collect(&[FromGuest::Output { size: 0 }, FromGuest::Output { size: 0 }]).is_err());
    assert_eq!(
        collect(&[output.clone(), FromGuest::Chunk(b"123")]).err(),
        Some("more bytes than announced")
    );
    assert_eq!(collect(&[output.clone(), FromGuest::Chunk(b"")]).err(), Some("empty chunk"));
    assert_eq!(
        collect(&[output.clone(), FromGuest::Chunk(b"1"), FromGuest::Done]).err(),
        Some("announced more bytes than it sent")
    );
    assert!(collect(&[output, FromGuest::Chunk(b"1")]).expect("broken off").output.is_none());
    let empty = collect(&[FromGuest::Output { size: 0 }]).expect("it is in order");
    assert_eq!(empty.output.as_deref(), Some(&b""[..]));
}

#[test]
fn rejects_files_above_the_limits() {
    let empty = ["a", "b", "c", "d"].map(|path| file(path, 0));
    assert!(collect(&empty[..3]).is_ok());
    assert_eq!(collect(&empty).err(), Some("more files than allowed"));
    assert!(collect(&[file("a", 100)]).is_ok());
    assert_eq!(collect(&[file("a", 101)]).err(), Some("more bytes in files than allowed"));
    assert_eq!(collect(&[file("a", u64::MAX)]).err(), Some("more bytes in files than allowed"));
    let bytes = [7; 60];
    let two = [file("a", 60), FromGuest::Chunk(&bytes), file("b", 41)];
    assert_eq!(collect(&two).err(), Some("more bytes in files than allowed"));
}

#[test]
fn rejects_invalid_file_paths() {
    let long = "x".repeat(256);
    for path in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "a\nb", "a\\b", ".", &long] {
        assert_eq!(
            collect(&[file(path, 0)]).err(),
            Some("a file with a path that is not allowed"),
            "{path:?}"
        );
    }
    for (one, other) in [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a/b/c", "a")] {
        assert_eq!(
            collect(&[file(one, 0), file(other, 0)]).err(),
            Some("two files with the same path")
        );
    }
    assert!(collect(&[file("a.b", 0), file("a", 0), file("a-b/c", 0)]).is_ok());
}

#[test]
fn rejects_too_many_skip_reports() {
    let skipped = FromGuest::Skipped { path: "x", reason: SkipReason::Special };
    assert!(collect(&vec![skipped.clone(); MAX_SKIPPED]).is_ok());
    assert!(collect(&vec![skipped; MAX_SKIPPED + 1]).is_err());
    let long = "x".repeat(names::MAX_PATH + 1);
    for path in ["a\nb", &long] {
        assert!(collect(&[FromGuest::Skipped { path, reason: SkipReason::Name }]).is_err());
    }
}

#[test]
fn distinguishes_a_too_large_job_from_a_failed_one() {
    let mut conversation = ProtocolState::new(StreamMode::Merged, CAPS);
    assert_eq!(
        conversation.receive(FromGuest::Failed { step: "write", errno: libc::ENOSPC }),
        Ok(GuestEvent::JobTooLarge)
    );
    assert!(conversation.finish().job_too_large);
    let mut conversation = ProtocolState::new(StreamMode::Merged, CAPS);
    let event = conversation.receive(FromGuest::Failed { step: "write", errno: libc::EIO });
    assert_eq!(event, Ok(GuestEvent::Failed { step: "write", errno: libc::EIO }));
}

/// Messages of a hostile guest: every type, mostly near the limits.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let paths = prop_oneof![
        Just("a".to_owned()),
        Just("a/b".to_owned()),
        Just("../x".to_owned()),
        ".{0,8}"
    ];
    let encode = |message: &FromGuest<'_>| {
        let mut bytes = Vec::new();
        frame::encode(message, frame::MAX_FROM_GUEST, &mut bytes).expect("it is short");
        bytes.split_off(frame::HEADER)
    };
    prop_oneof![
        Just(encode(&FromGuest::Started)),
        Just(encode(&FromGuest::Done)),
        Just(encode(&FromGuest::Failed { step: "x", errno: 1 })),
        any::<i32>().prop_map(move |code| encode(&exit(ExitStatus::Code(code % 300)))),
        proptest::collection::vec(any::<u8>(), 0..12).prop_map(move |bytes| encode(&log(&bytes))),
        proptest::collection::vec(any::<u8>(), 0..12)
            .prop_map(move |bytes| encode(&FromGuest::Chunk(&bytes))),
        (0..12u64).prop_map(move |size| encode(&FromGuest::Output { size })),
        (paths.clone(), 0..40u64).prop_map(move |(path, size)| encode(&file(&path, size))),
        paths.prop_map(move |path| encode(&FromGuest::Skipped {
            path: &path,
            reason: SkipReason::Name
        })),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #[test]
    fn no_sequence_of_messages_exceeds_the_limits(bodies in proptest::collection::vec(message(), 0..60)) {
        let mut conversation = ProtocolState::new(StreamMode::Merged, CAPS);
        // Without it most sequences would end at their first message.
        let _ = conversation.receive(FromGuest::Started);
        let (mut logged, mut filed, mut files) = (0, 0, 0);
        for body in &bodies {
            let Ok(message) = frame::decode(body) else { break };
            match conversation.receive(message) {
                Err(_) => break,
                Ok(GuestEvent::Log { bytes, .. }) => logged += bytes.len() as u64,
                Ok(GuestEvent::Chunk { bytes, .. }) => filed += bytes.len() as u64,
                Ok(GuestEvent::File { path, .. }) => {
                    prop_assert!(names::is_plain_path(path));
                    files += 1;
                }
                Ok(_) => {}
            }
        }
        prop_assert!(logged <= CAPS.log_bytes && filed <= CAPS.artifact_bytes && files <= CAPS.artifact_files);
        let report = conversation.finish();
        prop_assert!(report.output.is_none_or(|output| output.len() as u64 <= CAPS.output_bytes));
        prop_assert!(report.skipped.len() <= MAX_SKIPPED);
    }
}

#[test]
fn connect_attempts_are_reported_while_running_and_limited() {
    let tried = || {
        FromGuest::ConnectAttempted(ConnectAttempt {
            call: ConnectCall::Connect,
            to: ([1, 1, 1, 1], 443).into(),
        })
    };
    let report =
        receive_all(&[FromGuest::Started, tried(), exit(ExitStatus::Code(0)), FromGuest::Done])
            .expect("in order");
    assert_eq!(report.connect_attempts.len(), 1);
    assert!(receive_all(&[tried()]).is_err() && collect(&[tried()]).is_err());
    let flood: Vec<_> = std::iter::once(FromGuest::Started)
        .chain((0..=MAX_CONNECT_ATTEMPTS).map(|_| tried()))
        .collect();
    assert!(receive_all(&flood[..flood.len() - 1]).is_ok() && receive_all(&flood).is_err());
}
