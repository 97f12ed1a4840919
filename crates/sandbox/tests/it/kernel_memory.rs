//! Memory of the kernel that a run makes it allocate, seen from the host: what is charged to no
//! control group must not take a run beyond its limit.

use std::fs;
use std::time::Duration;

use guest::jail::UID_BASE;
use language::Language;
use sandbox::{Control, Defence, Job, Launcher, NativeLauncher, Outcome, RunReport};
use tokio_util::sync::CancellationToken;

use crate::support::{
    MACHINE, MIB, RecordingSink, job, lacks_controls, native_config, native_launcher, shape,
};

/// What the run may have in all.
const LIMIT: u64 = 64 * MIB;

/// Every kind of allocation that `fixtures/kernel-memory.py` knows.
const KINDS: [&str; 20] = [
    "attributes", "descriptors_on_the_way", "epoll", "event_files", "flocks", "inotify", "keys",
    "mappings", "message_queues", "names", "page_tables", "pipes", "posix_timers", "signals",
    "tcp", "tcp_not_accepted", "udp", "unix_datagrams", "unix_names", "unix_sockets",
];

#[tokio::test]
async fn no_type_of_kernel_memory_exceeds_the_limit_of_a_run() {
    // Nobody else is to take or free memory of the kernel meanwhile.
    let _machine = MACHINE.write().await;
    let launcher = native_launcher();
    if lacks_controls(&launcher, &[Control::MemoryLimit], "no_kind_of_kernel_memory").await {
        return;
    }
    let mut beyond = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "to try one kind while writing it")]
    let only = std::env::var("SKILLBOX_KIND").ok();
    for kind in KINDS.into_iter().filter(|kind| only.as_ref().is_none_or(|only| only == kind)) {
        let (ran, grown) = hold(&launcher, &allocate(kind), kernel_bytes).await;
        println!("{kind:<24} {:>4} MiB  {}", grown / MIB, ran.outcome);
        if grown > LIMIT + LIMIT / 4 {
            beyond.push(format!("{kind}: {} MiB, {}", grown / MIB, ran.outcome));
        }
    }
    assert!(beyond.is_empty(), "{beyond:?}");
}

#[tokio::test]
async fn record_locks_end_a_run_before_they_exceed_its_memory_limit() {
    let _machine = MACHINE.write().await;
    let launcher = native_launcher();
    if lacks_controls(&launcher, &[Control::MemoryLimit], "record_locks_end_a_run").await {
        return;
    }
    let (ran, grown) = hold(&launcher, &record_locks(), bytes_of_locks).await;
    println!("{:<24} {:>4} MiB  {}", "record locks", grown / MIB, ran.outcome);
    assert_eq!(ran.outcome, Outcome::OutOfMemory);
    assert!(grown < LIMIT / 4, "the kernel took {} MiB for locks", grown / MIB);
}

#[tokio::test]
async fn without_counting_connections_exceed_the_memory_limit() {
    let _machine = MACHINE.write().await;
    let launcher = NativeLauncher::start_without(native_config(), Defence::CountedMemory).unwrap();
    // Only root reads how much the kernel has.
    if lacks_controls(&launcher, &[Control::MemoryLimit], "without_counting").await {
        return;
    }
    let (ran, grown) = hold(&launcher, &allocate("tcp_not_accepted"), kernel_bytes).await;
    println!("{:<24} {:>4} MiB  {}", "connections, uncounted", grown / MIB, ran.outcome);
    assert!(grown > 2 * LIMIT, "the kernel took {} MiB for connections", grown / MIB);
}

#[tokio::test]
async fn without_counting_record_locks_exceed_the_memory_limit() {
    let _machine = MACHINE.write().await;
    let launcher = NativeLauncher::start_without(native_config(), Defence::CountedMemory).unwrap();
    // Only root reads how much the kernel has.
    if lacks_controls(&launcher, &[Control::MemoryLimit], "without_counting").await {
        return;
    }
    let (ran, grown) = hold(&launcher, &record_locks(), bytes_of_locks).await;
    println!("{:<24} {:>4} MiB  {}", "record locks, uncounted", grown / MIB, ran.outcome);
    assert_eq!(ran.outcome, Outcome::Cancelled, "the script held its locks until it was stopped");
    assert!(grown > LIMIT, "the kernel took {} MiB for locks", grown / MIB);
}

fn allocate(kind: &str) -> Job {
    let mut job = job(Language::Python, include_str!("../fixtures/kernel-memory.py"));
    job.env.push(("KIND".into(), kind.into()));
    job.timeout = Duration::from_secs(10);
    job
}

fn record_locks() -> Job {
    let mut job = job(Language::Python, include_str!("../fixtures/hostile/record-locks/main.py"));
    job.env.push(("HOLD".into(), "1".into()));
    job
}

/// Runs an attack until it ends or says that it holds what it wanted, and tells how much the
/// kernel's memory grew by at the most.
async fn hold(launcher: &dyn Launcher, attack: &Job, measure: fn() -> u64) -> (RunReport, u64) {
    let (holding, stop) = (CancellationToken::new(), CancellationToken::new());
    let mut kept = RecordingSink::cancel_on_log(holding.clone());
    let mut shape = shape(Language::Python);
    shape.memory_bytes = LIMIT;
    let guest = launcher.launch(&shape).await.unwrap();
    let before = measure();
    let mut most = 0;
    let run = guest.run(attack, stop.clone(), &mut kept);
    tokio::pin!(run);
    loop {
        tokio::select! {
            ran = &mut run => return (ran.unwrap(), most),
            () = tokio::time::sleep(Duration::from_millis(10)) => {
                // What it said was said before it is measured once more.
                let done = holding.is_cancelled();
                most = most.max(measure().saturating_sub(before));
                // Enough is enough: the machine is not ours alone.
                if done || most > 4 * LIMIT {
                    stop.cancel();
                }
            }
        }
    }
}

/// What the kernel's cache of locks has.
fn bytes_of_locks() -> u64 {
    let caches = fs::read_to_string("/proc/slabinfo").unwrap();
    let locks = caches.lines().find(|line| line.starts_with("file_lock_cache ")).unwrap();
    let columns: Vec<u64> =
        locks.split_whitespace().skip(1).take(3).map(|number| number.parse().unwrap()).collect();
    // Objects there are, in use or not, and the size of one.
    columns[1] * columns[2]
}

/// The kernel's own memory, as far as the rest of the machine leaves it alone: caches that it
/// cannot empty, stacks, buffers of sockets, and the page tables of sandboxes.
fn kernel_bytes() -> u64 {
    let kernel: u64 = ["SUnreclaim:", "KernelStack:"]
        .map(|name| kilobytes("/proc/meminfo", name))
        .into_iter()
        .sum();
    (kernel + page_tables_of_sandboxes()) * 1024 + pages_of_sockets() * 4096
}

fn kilobytes(file: &str, name: &str) -> u64 {
    let all = fs::read_to_string(file).unwrap_or_default();
    let line = all.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()).map_or(0, |number| number.parse().unwrap())
}

fn page_tables_of_sandboxes() -> u64 {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| format!("{}/status", entry.path().display()));
    processes
        .filter(|status| kilobytes(status, "Uid:") >= UID_BASE.into())
        .map(|status| kilobytes(&status, "VmPTE:"))
        .sum()
}

/// Of all network namespaces together: `TCP: inuse 4 … mem 1`.
fn pages_of_sockets() -> u64 {
    let all = fs::read_to_string("/proc/net/sockstat").unwrap();
    let pages =
        |line: &str| line.split_once(" mem ").map(|(_, pages)| pages.parse::<u64>().unwrap());
    all.lines().filter_map(pages).sum()
}
