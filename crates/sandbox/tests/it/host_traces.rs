//! Nothing in a sandbox's `/proc` names this boot, or the host's disks, directories and processes.

use std::collections::BTreeMap;
use std::fs;

use guest::jail::UID_BASE;
use language::Language;
use sandbox::{Control, Defence, Launcher, NativeLauncher};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Backend, MACHINE, RecordingSink, job, lacks_controls, native_config, native_launcher,
    on_every_backend, run_in, shape,
};

/// Hands back whatever can be read in `/proc`, of each file the beginning; of processes this one
/// and the guest.
const READ_ALL: &str = r#"
import json, os
SKIPPED = ("task", "map_files", "fd", "kmsg", "kcore", "mem", "pagemap", "kpagecount", "kpageflags", "kpagecgroup")
found = {}
for top in ["/proc", "/proc/self/", "/proc/1"]:
    for directory, directories, files in os.walk(top):
        directories[:] = [name for name in directories if not name.isdigit() and name not in SKIPPED]
        for path in [os.path.join(directory, name) for name in files if name not in SKIPPED]:
            try:
                file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                found[path] = os.read(file, 16384).decode(errors="replace")
                os.close(file)
            except OSError:
                pass
json.dump(found, open("/sandbox/out/files/found.json", "w"))
"#;

/// The mount tables of a container, which cannot be covered for every process to come: the engine's
/// directories and the disk they are on stand there.
const MOUNT_TABLES: [&str; 3] = ["/mountinfo", "/mounts", "/mountstats"];

// Not of pods: their `/proc` is what their node makes of it.
on_every_backend!(@ native Native proc_reveals_nothing_about_the_host);
on_every_backend!(@ runc Runc proc_reveals_nothing_about_the_host);
on_every_backend!(@ runsc Runsc proc_reveals_nothing_about_the_host);

async fn proc_reveals_nothing_about_the_host(on: Backend) {
    let _machine = MACHINE.read().await;
    let mut found = read_proc(&*on.launcher().await).await;
    if on != Backend::Native {
        found.retain(|path, _| !MOUNT_TABLES.iter().any(|table| path.ends_with(table)));
    }
    assert!(
        found.contains_key("/proc/self/status") && found.contains_key("/proc/meminfo"),
        "{:?}",
        found.keys()
    );
    assert_eq!(traces(&found), Vec::<String>::new());
}

#[tokio::test]
async fn unmasked_proc_reveals_the_boot_id_and_disks() {
    let _machine = MACHINE.read().await;
    let launcher = NativeLauncher::start_without(native_config(), Defence::ClosedProc).unwrap();
    let traces = traces(&read_proc(&launcher).await);
    for file in ["/proc/sys/kernel/random/boot_id", "/proc/cmdline", "/proc/partitions"] {
        assert!(
            traces.iter().any(|trace| trace.starts_with(file)),
            "{file} is not among {traces:?}"
        );
    }
}

#[tokio::test]
async fn bind_mounts_of_host_trees_reveal_the_disk() {
    let _machine = MACHINE.read().await;
    let launcher = NativeLauncher::start_without(native_config(), Defence::OwnInodes).unwrap();
    let traces = traces(&read_proc(&launcher).await);
    assert!(
        traces.iter().any(|trace| trace.starts_with("/proc/self/mountinfo has ")),
        "{traces:?}"
    );
}

#[tokio::test]
async fn host_uid_does_not_reveal_the_guest_pid() {
    let _machine = MACHINE.read().await;
    let launcher = native_launcher();
    if lacks_controls(&launcher, &[Control::UniqueUid], "host_uid_does_not_reveal_the_guest_pid")
        .await
    {
        return;
    }
    let (running, stop) = (CancellationToken::new(), CancellationToken::new());
    let mut kept = RecordingSink::cancel_on_log(running.clone());
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let job = job(Language::Bash, "cat /proc/self/uid_map; sleep 60");
    let look = async {
        running.cancelled().await;
        let processes = processes_of_sandboxes();
        stop.cancel();
        processes
    };
    let (ran, processes) = tokio::join!(guest.run(&job, stop.clone(), &mut kept), look);
    ran.unwrap();
    let outside: u32 = kept.text().split_whitespace().nth(1).unwrap().parse().unwrap();
    let pids: Vec<u32> =
        processes.into_iter().filter(|(_, uid)| *uid == outside).map(|(pid, _)| pid).collect();
    assert!(pids.len() >= 2, "the guest and its script are seen from outside: {pids:?}");
    assert!(!pids.contains(&(outside - UID_BASE)), "user {outside} of {pids:?}");
}

async fn read_proc(launcher: &dyn Launcher) -> BTreeMap<String, String> {
    let (ran, kept) =
        run_in(launcher, &shape(Language::Python), &job(Language::Python, READ_ALL)).await;
    assert_eq!(ran.exit_code, Some(0), "{}", kept.text());
    serde_json::from_slice(&kept.files["found.json"]).unwrap()
}

/// Where something of the host stands, and what.
fn traces(found: &BTreeMap<String, String>) -> Vec<String> {
    let secrets = secrets();
    let traces_in = |(path, text): (&String, &String)| {
        let words: Vec<&str> =
            text.split(|c: char| !(c.is_alphanumeric() || "-_/.=".contains(c))).collect();
        let found = secrets.iter().filter(|secret| words.iter().any(|word| holds(word, secret)));
        found.map(|secret| format!("{path} has {secret}")).collect::<Vec<_>>()
    };
    found.iter().flat_map(traces_in).collect()
}

/// A device's name is a word of its own or the end of a path; a path may have more behind it.
fn holds(word: &str, secret: &str) -> bool {
    word == secret
        || word.ends_with(&format!("/{secret}"))
        || (secret.starts_with('/') && word.starts_with(secret))
}

/// What only the host knows: its boot, the words of its kernel's command line, its disks, and a
/// directory of its own.
fn secrets() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap().trim().to_owned();
    let command_line = read("/proc/cmdline");
    let arguments = command_line
        .split_whitespace()
        .filter(|argument| argument.contains('='))
        .map(str::to_owned);
    let disks = fs::read_dir("/sys/block")
        .unwrap()
        .map(|disk| disk.unwrap().file_name().into_string().unwrap());
    let others = [read("/proc/sys/kernel/random/boot_id"), env!("CARGO_MANIFEST_DIR").to_owned()];
    arguments.chain(disks).chain(others).collect()
}

/// Every process of the machine whose user exists only in sandboxes.
fn processes_of_sandboxes() -> Vec<(u32, u32)> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pid_and_user = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // The directory itself is root's, because the guest is hidden.
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let uid = status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))?
            .split_whitespace()
            .next()?
            .parse()
            .ok()?;
        Some((pid, uid))
    };
    all.filter_map(pid_and_user).filter(|(_, uid)| *uid >= UID_BASE).collect()
}
