//! Ordinary scripts work with the allowlist of system calls, and every call on it is used.

use language::Language;
use sandbox::Outcome;

use crate::support::{Backend, job, on_every_backend, run};

// Only where the allowlist decides: gVisor implements its own calls, and pods have no sockets.
on_every_backend!(@ native Native
    python_scripts_work node_scripts_work shell_scripts_work
    programs_of_other_c_libraries_work);
on_every_backend!(@ runc Runc
    python_scripts_work node_scripts_work shell_scripts_work
    programs_of_other_c_libraries_work);

async fn python_scripts_work(on: Backend) {
    works(on, Language::Python, include_str!("../fixtures/ordinary/main.py")).await;
}

async fn node_scripts_work(on: Backend) {
    works(on, Language::Node, include_str!("../fixtures/ordinary/main.js")).await;
}

async fn shell_scripts_work(on: Backend) {
    works(on, Language::Bash, include_str!("../fixtures/ordinary/main.sh")).await;
}

async fn programs_of_other_c_libraries_work(on: Backend) {
    works(on, Language::Python, include_str!("../fixtures/ordinary/old-calls.py")).await;
}

async fn works(on: Backend, language: Language, script: &str) {
    let (ran, kept) = run(on, language, &job(language, script)).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(0)), "{}", kept.text());
}
