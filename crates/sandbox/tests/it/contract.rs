//! The environment of a script: paths, variables, standard streams, exit codes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use language::Language;
use sandbox::{FileSource, GuestError, JobFile, Outcome, StreamMode, StreamedFile};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::support::{Backend, file, job, on_every_backend, run, try_run};

on_every_backend! {
    script_reads_its_files_and_returns_output_and_artifacts,
    environment_has_exactly_the_requested_variables_and_path,
    script_is_unprivileged_in_the_requested_directory_with_default_signals,
    standard_input_is_empty_unless_given,
    large_inputs_and_artifacts_arrive_complete,
    streamed_files_arrive_complete,
    nothing_runs_when_a_streamed_file_cannot_be_read,
    merged_streams_keep_the_exact_order_of_writes,
    split_streams_are_separate,
    executable_file_runs_with_its_shebang_interpreter,
    oom_killer_kills_the_script_and_not_the_guest,
}

async fn script_reads_its_files_and_returns_output_and_artifacts(on: Backend) {
    let script = r#"
import json, os
document = json.load(open("/sandbox/input.json"))
assert open("/skills/test/main.py").read() == open("/sandbox/scripts/main.py").read()
assert open("/sandbox/input/data.csv").read() == "a,b\n"
os.makedirs("/sandbox/out/files/reports/2026")
open("/sandbox/out/files/reports/2026/a.txt", "w").write("A")
open(os.environ["SANDBOX_FILES_DIR"] + "empty", "w")
json.dump({"document": document}, open(os.environ["SANDBOX_OUTPUT"], "w"))
"#;
    let mut job = job(Language::Python, script);
    job.files.push(file("/sandbox/input/data.csv", "a,b\n"));
    let (ran, kept) = run(on, Language::Python, &job).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(0)), "{}", kept.text());
    assert_eq!(ran.output.as_deref(), Some(&br#"{"document": {}}"#[..]));
    assert_eq!(kept.names(), ["empty", "reports/2026/a.txt"]);
    assert_eq!(kept.files["reports/2026/a.txt"], b"A");
    assert!(ran.skipped.is_empty());
}

async fn environment_has_exactly_the_requested_variables_and_path(on: Backend) {
    let mut job = job(Language::Python, "import json, os\nprint(json.dumps(dict(os.environ)))\n");
    job.env = vec![("GREETING".into(), "grüße\nzwei".into()), ("EMPTY".into(), String::new())];
    let (_, kept) = run(on, Language::Python, &job).await;
    let found: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&kept.merged).unwrap();
    assert_eq!(found["GREETING"], "grüße\nzwei");
    assert_eq!(found["EMPTY"], "");
    // LC_CTYPE is set by Python itself when it finds no locale.
    let names: Vec<_> = found.keys().filter(|name| *name != "LC_CTYPE").collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(found["PATH"].as_str().unwrap().contains("/usr/bin"));
}

async fn script_is_unprivileged_in_the_requested_directory_with_default_signals(on: Backend) {
    let script = "id -u; id -g; pwd; umask; grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | wc -l; echo $$";
    let mut job = job(Language::Bash, script);
    job.cwd = "/workspace".into();
    let (_, kept) = run(on, Language::Bash, &job).await;
    let log = kept.text();
    let lines: Vec<_> = log.lines().collect();
    let user = if on == Backend::Native { "1000" } else { "65534" };
    assert_eq!(lines[..4], [user, user, "/workspace", "0022"], "{log}");
    if on == Backend::Runsc {
        // gVisor's /proc has neither signals nor descriptors as on Linux.
        return;
    }
    assert!(lines[4].starts_with("SigBlk") && lines[4].ends_with("0000000000000000"), "{log}");
    assert!(lines[5].starts_with("SigIgn") && lines[5].ends_with("0000000000000000"), "{log}");
    // Three standard streams and the directory that `ls` itself reads.
    assert_eq!(lines[6], "4", "{log}");
    assert_ne!(lines[7], "1", "{log}");
}

async fn standard_input_is_empty_unless_given(on: Backend) {
    let script = "import sys\nprint(repr(sys.stdin.read()))\n";
    let mut job = job(Language::Python, script);
    let (_, kept) = run(on, Language::Python, &job).await;
    assert_eq!(kept.text(), "''\n");
    job.stdin = Some(Bytes::from("first\nsecond"));
    let (_, kept) = run(on, Language::Python, &job).await;
    assert_eq!(kept.text(), "'first\\nsecond'\n");
}

async fn large_inputs_and_artifacts_arrive_complete(on: Backend) {
    let script = "cp /sandbox/input/big /sandbox/out/files/big; cat > /sandbox/out/files/stdin";
    let mut job = job(Language::Bash, script);
    let big: Vec<u8> = (0..5_000_000u32).map(|n| (n % 251) as u8).collect();
    job.files.push(JobFile {
        path: "/sandbox/input/big".into(),
        bytes: big.clone().into(),
        executable: false,
    });
    job.stdin = Some(big.clone().into());
    let (ran, kept) = run(on, Language::Bash, &job).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(0)), "{}", kept.text());
    assert!(kept.files["big"] == big && kept.files["stdin"] == big);
    assert!(ran.usage.bytes_in >= 10_000_000 && ran.usage.bytes_out >= 10_000_000);
}

/// A file of some bytes, all the same, made as they are asked for.
struct Repeated {
    bytes: u64,
    fails_with: Option<io::ErrorKind>,
}

#[async_trait]
impl FileSource for Repeated {
    async fn open(&self) -> io::Result<Pin<Box<dyn AsyncRead + Send>>> {
        match self.fails_with {
            Some(kind) => Err(kind.into()),
            None => Ok(Box::pin(tokio::io::repeat(b'x').take(self.bytes))),
        }
    }
}

fn streamed(size: u64, source: Repeated) -> StreamedFile {
    StreamedFile { path: "/sandbox/input/a/big".into(), size, source: Arc::new(source) }
}

async fn streamed_files_arrive_complete(on: Backend) {
    let script = "data = open('/sandbox/input/a/big', 'rb').read()\nprint(len(data), set(data))\n";
    let mut job = job(Language::Python, script);
    job.streamed = vec![streamed(3_000_001, Repeated { bytes: 3_000_001, fails_with: None })];
    let (ran, kept) = run(on, Language::Python, &job).await;
    assert_eq!((ran.outcome, kept.text().trim()), (Outcome::Exited, "3000001 {120}"));
    assert!(ran.usage.bytes_in >= 3_000_001);
}

async fn nothing_runs_when_a_streamed_file_cannot_be_read(on: Backend) {
    let mut job = job(Language::Bash, "echo ran");
    let short = Repeated { bytes: 10, fails_with: None };
    let missing = Repeated { bytes: 0, fails_with: Some(io::ErrorKind::NotFound) };
    for (source, kind) in
        [(short, io::ErrorKind::UnexpectedEof), (missing, io::ErrorKind::NotFound)]
    {
        job.streamed = vec![streamed(11, source)];
        let (failed, kept) = try_run(on, Language::Bash, &job).await;
        let Err(GuestError::Source { path, source }) = failed else { panic!("it ran: {failed:?}") };
        assert_eq!(
            (path.as_str(), source.kind(), kept.text().as_str()),
            ("/sandbox/input/a/big", kind, "")
        );
    }
}

async fn merged_streams_keep_the_exact_order_of_writes(on: Backend) {
    let script = "import os\nfor n in range(2000):\n    os.write(1 + n % 2, b'%d\\n' % n)\n";
    let (_, kept) = run(on, Language::Python, &job(Language::Python, script)).await;
    let expected: String = (0..2000).map(|n| format!("{n}\n")).collect();
    assert_eq!(kept.text(), expected);
}

async fn split_streams_are_separate(on: Backend) {
    let mut job = job(
        Language::Node,
        "console.log('out'); console.error('err'); process.stdout.write('end')",
    );
    job.streams = StreamMode::Split;
    let (_, kept) = run(on, Language::Node, &job).await;
    assert_eq!((&kept.stdout[..], &kept.stderr[..]), (&b"out\nend"[..], &b"err\n"[..]));
    assert!(kept.merged.is_empty());
}

async fn executable_file_runs_with_its_shebang_interpreter(on: Backend) {
    let mut job = job(Language::Bash, "");
    let bytes = Bytes::from("#!/bin/bash\necho \"$0 $1\"\n");
    job.files.push(JobFile { path: "/sandbox/scripts/tool".into(), bytes, executable: true });
    job.argv = vec!["/sandbox/scripts/tool".into(), "an argument".into()];
    let (ran, kept) = run(on, Language::Bash, &job).await;
    assert_eq!(kept.text(), "/sandbox/scripts/tool an argument\n");
    assert_eq!(ran.exit_code, Some(0));
}

async fn oom_killer_kills_the_script_and_not_the_guest(on: Backend) {
    let script = "cat /proc/self/oom_score_adj; cat /proc/1/oom_score_adj";
    let (_, kept) = run(on, Language::Bash, &job(Language::Bash, script)).await;
    let text = kept.text();
    let scores: Vec<i32> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(scores[0], 1000);
    assert!(scores[1] < 1000);
}
