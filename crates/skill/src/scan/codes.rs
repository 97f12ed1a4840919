//! Every code a finding of the scanner can have, with the keep_most_severe severity it can have.

use crate::Severity::{Error, Warning};
use crate::rules::{FindingRule, scan_rule};

/// They count whatever the profile. The table in the documentation has the same codes.
pub static SCAN_RULES: &[FindingRule] = &[
    scan_rule(
        "hidden_text",
        Error,
        "The text carries a message that nobody sees and models read; remove it.",
    ),
    scan_rule(
        "bidirectional_text",
        Error,
        "A character turns the direction of the text or of a name; remove it.",
    ),
    scan_rule(
        "invisible_character",
        Warning,
        "An invisible character can hide text from people; remove it.",
    ),
    scan_rule(
        "hidden_instruction",
        Error,
        "A part that is not printable tells a model to disobey, or to keep something from its user; remove it.",
    ),
    scan_rule(
        "secret",
        Error,
        "This looks like a key or a token; revoke it, and pass secrets in `env` instead.",
    ),
    scan_rule("reverse_shell", Error, "A shell is handed to whoever listens elsewhere; remove it."),
    scan_rule(
        "encoded_code",
        Error,
        "Code is decoded and run in one go, so that nobody reads it; write it out.",
    ),
    scan_rule(
        "remote_code",
        Error,
        "Code is run straight from the network, where it can change at any time; ship it.",
    ),
    scan_rule(
        "credential_theft",
        Error,
        "Credentials are read and sent away, or collected; remove it.",
    ),
    scan_rule(
        "environment_theft",
        Error,
        "All environment variables are sent to somebody; send what is needed.",
    ),
    scan_rule("miner", Error, "This mines cryptocurrency; remove it."),
    scan_rule(
        "destruction",
        Error,
        "This destroys whatever it can reach; name what is to be deleted.",
    ),
    scan_rule(
        "persistence",
        Error,
        "Something is made to run again later, outside the skill; remove it.",
    ),
    scan_rule(
        "collector",
        Warning,
        "The address is known for receiving stolen data; use one of your own.",
    ),
    scan_rule(
        "install_hook",
        Error,
        "Code runs when something is installed or started; let the user call it.",
    ),
    scan_rule(
        "foreign_package",
        Warning,
        "A package does not come from the usual index; pin a released version.",
    ),
    scan_rule(
        "typosquat",
        Error,
        "A package is one slip away from a popular one; make sure that it is meant.",
    ),
    scan_rule(
        "native_program",
        Warning,
        "This is a compiled program, which nobody can review; ship its source.",
    ),
    scan_rule("scanned_in_part", Error, "The file is too long to be looked at whole; split it."),
];
