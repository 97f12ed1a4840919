//! What `fixtures/hostile/refused-options` asks for is granted where nothing refuses it.

use std::collections::BTreeMap;

use language::Language;
use sandbox::{Defence, NativeLauncher};
use serde::Deserialize;

use crate::support::{MACHINE, job, native_config, run_in, shape};

const ATTACK: &str = include_str!("../fixtures/hostile/refused-options/main.py");

#[tokio::test]
async fn unchecked_arguments_are_granted() {
    let Answers { granted, errors } = answers_without(Defence::CheckedArguments).await;
    for option in [
        "prctl PR_SET_MEMORY_MERGE", "madvise MADV_MERGEABLE", "madvise MADV_PAGEOUT",
        "setsockopt UDP_ENCAP", "setsockopt SO_ZEROCOPY", "setsockopt IP_ADD_MEMBERSHIP",
        "fcntl F_SETLEASE", "fcntl F_NOTIFY", "fcntl F_OFD_SETLK", "fcntl F_SETOWN",
        "ioctl SIOCGIFCONF",
    ] {
        assert!(granted.iter().any(|name| name == option), "{option} is not among {granted:?}");
    }
    // Not every kernel has these; one that is asked says something else than a filter.
    for option in ["setsockopt TCP_ULP", "ping socket", "ping socket of IPv6"] {
        assert_ne!(errors.get(option), Some(&libc::EPERM), "{option}");
    }
}

#[tokio::test]
async fn an_open_proc_can_be_written() {
    let Answers { granted, .. } = answers_without(Defence::ClosedProc).await;
    for file in ["/proc/self/clear_refs", "/proc/self/oom_score_adj", "/proc/self/timerslack_ns"] {
        assert!(granted.iter().any(|name| name == file), "{file} is not among {granted:?}");
    }
}

/// What the attack was given, and the error numbers of the rest.
#[derive(Deserialize)]
struct Answers {
    granted: Vec<String>,
    errors: BTreeMap<String, i32>,
}

async fn answers_without(defence: Defence) -> Answers {
    let _machine = MACHINE.read().await;
    let launcher = NativeLauncher::start_without(native_config(), defence).unwrap();
    let (ran, kept) =
        run_in(&launcher, &shape(Language::Python), &job(Language::Python, ATTACK)).await;
    serde_json::from_slice(&ran.output.unwrap_or_else(|| panic!("{}", kept.text()))).unwrap()
}
