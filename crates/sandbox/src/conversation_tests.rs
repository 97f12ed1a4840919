//! Every way in which a guest can break the protocol, and that nothing it says does more than that.

use guest::frame;
use guest::protocol::ConnectCall;
use proptest::prelude::*;

use super::*;

const CAPS: OutputLimits =
    OutputLimits { log_bytes: 10, output_bytes: 8, artifact_bytes: 100, artifact_files: 3 };

const EXIT: FromGuest<'static> = exit(ExitStatus::Code(0));

const fn exit(status: ExitStatus) -> FromGuest<'static> {
    FromGuest::Exit(ExitReport { status, disk_full: false, log_bytes_dropped: 0, counted: None })
}

fn log(bytes: &[u8]) -> FromGuest<'_> {
    FromGuest::Log { stream: OutputStream::Merged, bytes }
}

fn file(path: &str, size: u64) -> FromGuest<'_> {
    FromGuest::File { path, size }
}

/// Hears everything; the violation that ended it, or what was heard.
fn hear(messages: &[FromGuest<'_>]) -> Result<Heard, Violation> {
    let mut conversation = Conversation::new(StreamMode::Merged, CAPS);
    for message in messages {
        conversation.hear(message.clone())?;
    }
    Ok(conversation.end())
}

/// The same after a proper start and end of the script.
fn collect(messages: &[FromGuest<'_>]) -> Result<Heard, Violation> {
    hear(&[&[FromGuest::Started, EXIT], messages].concat())
}

#[test]
fn a_proper_conversation_is_understood() {
    let mut conversation = Conversation::new(StreamMode::Merged, CAPS);
    let mut next = |message| conversation.hear(message).expect("it is in order");
    assert_eq!(next(FromGuest::Started), Event::Started);
    assert_eq!(next(log(b"hello")), Event::Log { stream: OutputStream::Merged, bytes: b"hello" });
    assert_eq!(next(EXIT), Event::Exited(ExitStatus::Code(0)));
    assert_eq!(next(FromGuest::Output { size: 2 }), Event::Nothing);
    assert_eq!(next(FromGuest::Chunk(b"{")), Event::Nothing);
    assert_eq!(next(FromGuest::Chunk(b"}")), Event::Nothing);
    assert_eq!(next(file("a/b", 3)), Event::File { path: "a/b", size: 3 });
    assert_eq!(next(FromGuest::Chunk(b"xy")), Event::Chunk { bytes: b"xy", last: false });
    assert_eq!(next(FromGuest::Chunk(b"z")), Event::Chunk { bytes: b"z", last: true });
    assert_eq!(next(file("empty", 0)), Event::File { path: "empty", size: 0 });
    assert_eq!(
        next(FromGuest::Skipped { path: "link", why: SkipReason::SymbolicLink }),
        Event::Nothing
    );
    assert_eq!(next(FromGuest::Done), Event::Done);
    let heard = conversation.end();
    assert!(heard.started && heard.done && !heard.output_too_large);
    assert_eq!(heard.output.as_deref(), Some(&b"{}"[..]));
    assert_eq!(
        heard.skipped,
        [SkippedFile { path: "link".into(), reason: "symbolic link".into() }]
    );
    assert_eq!(heard.bytes_out, 5 + 2 + 3);
}

#[test]
fn a_script_that_cannot_start_ends_without_having_started() {
    let heard = hear(&[exit(ExitStatus::NotStarted(2)), FromGuest::Done]).expect("it is in order");
    assert!(!heard.started && heard.done);
}

#[test]
fn messages_out_of_order_are_refused() {
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
            witness: false,
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
        FromGuest::Skipped { path: "a", why: SkipReason::Name },
        FromGuest::Done,
        failed(),
    ];
    let refused_after = |before: &[FromGuest<'static>], allowed: fn(&FromGuest<'_>) -> bool| {
        for message in any.iter().chain(&rest).chain([&not_started]) {
            let heard = hear(&[before, std::slice::from_ref(message)].concat());
            assert_eq!(heard.is_ok(), allowed(message), "{before:?} then {message:?}");
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
fn logs_are_bounded_and_of_the_streams_asked_for() {
    assert!(hear(&[FromGuest::Started, log(b"12345"), log(b"67890")]).is_ok());
    assert_eq!(
        hear(&[FromGuest::Started, log(b"12345"), log(b"678901")]).err(),
        Some("more log bytes than allowed")
    );
    assert_eq!(hear(&[FromGuest::Started, log(b"")]).err(), Some("empty log"));
    for (streams, stream, fits) in [
        (StreamMode::Merged, OutputStream::Stdout, false),
        (StreamMode::Merged, OutputStream::Merged, true),
        (StreamMode::Split, OutputStream::Merged, false),
        (StreamMode::Split, OutputStream::Stderr, true),
    ] {
        let mut conversation = Conversation::new(streams, CAPS);
        conversation.hear(FromGuest::Started).expect("it is in order");
        assert_eq!(conversation.hear(FromGuest::Log { stream, bytes: b"x" }).is_ok(), fits);
    }
}

#[test]
fn impossible_exits_are_refused() {
    for status in [
        ExitStatus::Code(-1),
        ExitStatus::Code(256),
        ExitStatus::Signal(0),
        ExitStatus::Signal(i32::MAX),
    ] {
        assert!(hear(&[FromGuest::Started, exit(status)]).is_err(), "{status:?}");
    }
    assert!(hear(&[exit(ExitStatus::NotStarted(0))]).is_err());
}

#[test]
fn the_output_is_bounded_and_comes_once_and_whole() {
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
fn files_are_bounded_in_number_and_size() {
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
fn paths_of_files_are_checked_here_too() {
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
fn skipped_files_are_bounded() {
    let skipped = FromGuest::Skipped { path: "x", why: SkipReason::Special };
    assert!(collect(&vec![skipped.clone(); MAX_SKIPPED]).is_ok());
    assert!(collect(&vec![skipped; MAX_SKIPPED + 1]).is_err());
    let long = "x".repeat(names::MAX_PATH + 1);
    for path in ["a\nb", &long] {
        assert!(collect(&[FromGuest::Skipped { path, why: SkipReason::Name }]).is_err());
    }
}

#[test]
fn a_job_that_does_not_fit_is_told_from_one_that_fails() {
    let mut conversation = Conversation::new(StreamMode::Merged, CAPS);
    assert_eq!(
        conversation.hear(FromGuest::Failed { step: "write", errno: libc::ENOSPC }),
        Ok(Event::NoRoom)
    );
    assert!(conversation.end().no_room);
    let mut conversation = Conversation::new(StreamMode::Merged, CAPS);
    let event = conversation.hear(FromGuest::Failed { step: "write", errno: libc::EIO });
    assert_eq!(event, Ok(Event::Failed { step: "write", errno: libc::EIO }));
}

/// Messages as a guest gone wild would send them: every kind, mostly near the bounds.
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
            why: SkipReason::Name
        })),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #[test]
    fn no_sequence_of_messages_gets_past_the_caps(bodies in proptest::collection::vec(message(), 0..60)) {
        let mut conversation = Conversation::new(StreamMode::Merged, CAPS);
        // Without it most sequences would end at their first message.
        let _ = conversation.hear(FromGuest::Started);
        let (mut logged, mut filed, mut files) = (0, 0, 0);
        for body in &bodies {
            let Ok(message) = frame::decode(body) else { break };
            match conversation.hear(message) {
                Err(_) => break,
                Ok(Event::Log { bytes, .. }) => logged += bytes.len() as u64,
                Ok(Event::Chunk { bytes, .. }) => filed += bytes.len() as u64,
                Ok(Event::File { path, .. }) => {
                    prop_assert!(names::plain_path(path));
                    files += 1;
                }
                Ok(_) => {}
            }
        }
        prop_assert!(logged <= CAPS.log_bytes && filed <= CAPS.artifact_bytes && files <= CAPS.artifact_files);
        let heard = conversation.end();
        prop_assert!(heard.output.is_none_or(|output| output.len() as u64 <= CAPS.output_bytes));
        prop_assert!(heard.skipped.len() <= MAX_SKIPPED);
    }
}

#[test]
fn attempts_are_told_while_the_script_runs_and_are_bounded() {
    let tried = || {
        FromGuest::Tried(ConnectAttempt {
            call: ConnectCall::Connect,
            to: ([1, 1, 1, 1], 443).into(),
        })
    };
    let heard = hear(&[FromGuest::Started, tried(), exit(ExitStatus::Code(0)), FromGuest::Done])
        .expect("in order");
    assert_eq!(heard.connect_attempts.len(), 1);
    assert!(hear(&[tried()]).is_err() && collect(&[tried()]).is_err());
    let flood: Vec<_> = std::iter::once(FromGuest::Started)
        .chain((0..=MAX_CONNECT_ATTEMPTS).map(|_| tried()))
        .collect();
    assert!(hear(&flood[..flood.len() - 1]).is_ok() && hear(&flood).is_err());
}
