//! Large blobs are streamed in little memory. Measured in a separate process, because the other
//! tests share this one.

use std::process::Command;

use tokio::io::AsyncReadExt;

use crate::support::{Bench, server};

const CHILD: &str = "SKILLBOX_TEST_MEMORY_CHILD";
const MIB: u64 = 1 << 20;
const BLOB: u64 = 300 * MIB;

#[tokio::test]
async fn large_blob_is_streamed_in_little_memory() {
    let Some(config) = server("large_blob_is_streamed_in_little_memory") else { return };
    #[expect(clippy::disallowed_methods, reason = "how this test tells its own child")]
    if std::env::var_os(CHILD).is_some() {
        return stream_there_and_back(Bench::s3(config).await).await;
    }
    let this = std::env::current_exe().expect("this program");
    let child = Command::new(this)
        .args(["memory::large_blob_is_streamed_in_little_memory", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("a child");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let grown = said.lines().find_map(|line| line.split("grown by ").nth(1)?.parse::<u64>().ok());
    let grown = grown.expect("the child's measure");
    // Eight parts in flight, one in the buffer, and the client's copies of them: a third of the blob.
    assert!(grown < 100 * MIB, "{} MiB", grown / MIB);
}

async fn stream_there_and_back(bench: Bench) {
    let before = peak_bytes();
    let (key, piece) = (bench.artifact("large"), vec![b'x'; 1_000_003]);
    let mut writer = bench.blobs.writer(&key);
    while writer.size() < BLOB {
        writer.write(&piece).await.expect("write");
    }
    let stored = writer.finish().await.expect("finish");

    let mut reader = bench.blobs.open(&key).await.expect("open").expect("a blob");
    assert_eq!(reader.size, stored.size);
    let (mut read, mut buffer) = (0, vec![0; 64 * 1024]);
    while let length @ 1.. = reader.stream.read(&mut buffer).await.expect("read") {
        assert!(buffer[..length].iter().all(|byte| *byte == b'x'));
        read += length as u64;
    }
    assert_eq!(read, stored.size);
    println!("\ngrown by {}", peak_bytes() - before);
}

/// The peak memory of this process.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kilobytes = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("a number") * 1024
}
