//! Every code a finding of the scanner can have, with the gravest severity it can have.

use crate::Severity::{Error, Warning};
use crate::rules::{Rule, always};

/// They count whatever the profile. The table in the documentation has the same codes.
pub static SCAN_RULES: &[Rule] = &[
    always(
        "hidden_text",
        Error,
        "The text carries a message that nobody sees and models read; remove it.",
    ),
    always(
        "bidirectional_text",
        Error,
        "A character turns the direction of the text or of a name; remove it.",
    ),
    always(
        "invisible_character",
        Warning,
        "An invisible character can hide text from people; remove it.",
    ),
    always(
        "hidden_instruction",
        Error,
        "A part that is not shown tells a model to disobey, or to keep something from its user; remove it.",
    ),
    always(
        "secret",
        Error,
        "This looks like a key or a token; revoke it, and pass secrets in `env` instead.",
    ),
    always("reverse_shell", Error, "A shell is handed to whoever listens elsewhere; remove it."),
    always(
        "encoded_code",
        Error,
        "Code is decoded and run in one go, so that nobody reads it; write it out.",
    ),
    always(
        "remote_code",
        Error,
        "Code is run straight from the network, where it can change at any time; ship it.",
    ),
    always(
        "credential_theft",
        Error,
        "Credentials are read and sent away, or collected; remove it.",
    ),
    always(
        "environment_theft",
        Error,
        "All environment variables are sent to somebody; send what is needed.",
    ),
    always("miner", Error, "This mines cryptocurrency; remove it."),
    always(
        "destruction",
        Error,
        "This destroys whatever it can reach; name what is to be deleted.",
    ),
    always(
        "persistence",
        Error,
        "Something is made to run again later, outside the skill; remove it.",
    ),
    always(
        "collector",
        Warning,
        "The address is known for receiving stolen data; use one of your own.",
    ),
    always(
        "install_hook",
        Error,
        "Code runs when something is installed or started; let the user call it.",
    ),
    always(
        "foreign_package",
        Warning,
        "A package does not come from the usual index; pin a released version.",
    ),
    always(
        "typosquat",
        Error,
        "A package is one slip away from a popular one; make sure that it is meant.",
    ),
    always(
        "native_program",
        Warning,
        "This is a compiled program, which nobody can review; ship its source.",
    ),
    always("scanned_in_part", Error, "The file is too long to be looked at whole; split it."),
];
