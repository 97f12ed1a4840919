//! What ordinary scripts do works under the list of system calls; and every call on the list is one
//! that somebody makes.

use language::Language;
use sandbox::Outcome;

use crate::support::{Backend, job, on_every_backend, run};

// Where the list is what holds: gVisor has calls of its own, and pods have no sockets.
on_every_backend!(@ native Native
    python_scripts_find_their_calls node_scripts_find_their_calls shell_scripts_find_their_calls
    programs_of_other_c_libraries_find_their_calls);
on_every_backend!(@ runc Runc
    python_scripts_find_their_calls node_scripts_find_their_calls shell_scripts_find_their_calls
    programs_of_other_c_libraries_find_their_calls);

async fn python_scripts_find_their_calls(on: Backend) {
    works(on, Language::Python, include_str!("../fixtures/ordinary/main.py")).await;
}

async fn node_scripts_find_their_calls(on: Backend) {
    works(on, Language::Node, include_str!("../fixtures/ordinary/main.js")).await;
}

async fn shell_scripts_find_their_calls(on: Backend) {
    works(on, Language::Bash, include_str!("../fixtures/ordinary/main.sh")).await;
}

async fn programs_of_other_c_libraries_find_their_calls(on: Backend) {
    works(on, Language::Python, include_str!("../fixtures/ordinary/old-calls.py")).await;
}

async fn works(on: Backend, language: Language, script: &str) {
    let (ran, kept) = run(on, language, &job(language, script)).await;
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(0)), "{}", kept.text());
}
