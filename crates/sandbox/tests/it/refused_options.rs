//! The calls of `fixtures/hostile/refused-options` succeed when the defence is disabled.

use std::collections::BTreeMap;

use language::Language;
use sandbox::{Defence, NativeLauncher};
use serde::Deserialize;

use crate::support::{MACHINE, job, native_config, run_in, shape};

const ATTACK: &str = include_str!("../fixtures/hostile/refused-options/main.py");

#[tokio::test]
async fn without_argument_rules_the_calls_succeed() {
    let CallResults { granted, errors } = results_without(Defence::CheckedArguments).await;
    for option in [
        "prctl PR_SET_MEMORY_MERGE", "madvise MADV_MERGEABLE", "madvise MADV_PAGEOUT",
        "setsockopt UDP_ENCAP", "setsockopt SO_ZEROCOPY", "setsockopt IP_ADD_MEMBERSHIP",
        "fcntl F_SETLEASE", "fcntl F_NOTIFY", "fcntl F_OFD_SETLK", "fcntl F_SETOWN",
        "ioctl SIOCGIFCONF",
    ] {
        assert!(granted.iter().any(|name| name == option), "{option} is not among {granted:?}");
    }
    // Not every kernel supports these, but its error differs from the filter's.
    for option in ["setsockopt TCP_ULP", "ping socket", "ping socket of IPv6"] {
        assert_ne!(errors.get(option), Some(&libc::EPERM), "{option}");
    }
}

#[tokio::test]
async fn without_landlock_on_proc_it_can_be_written() {
    let CallResults { granted, .. } = results_without(Defence::ClosedProc).await;
    for file in ["/proc/self/clear_refs", "/proc/self/oom_score_adj", "/proc/self/timerslack_ns"] {
        assert!(granted.iter().any(|name| name == file), "{file} is not among {granted:?}");
    }
}

/// The calls that succeeded, and the error numbers of the others.
#[derive(Deserialize)]
struct CallResults {
    granted: Vec<String>,
    errors: BTreeMap<String, i32>,
}

async fn results_without(defence: Defence) -> CallResults {
    let _machine = MACHINE.read().await;
    let launcher = NativeLauncher::start_without(native_config(), defence).unwrap();
    let (ran, kept) =
        run_in(&launcher, &shape(Language::Python), &job(Language::Python, ATTACK)).await;
    serde_json::from_slice(&ran.output.unwrap_or_else(|| panic!("{}", kept.text()))).unwrap()
}
