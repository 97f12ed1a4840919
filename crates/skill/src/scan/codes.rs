//! The finding codes of the scanner, with the highest severity of each.

use crate::Severity::{Error, Warning};
use crate::rules::{FindingRule, scan_rule};

/// They apply in every profile. The table in docs/scanning.md has the same codes.
pub static SCAN_RULES: &[FindingRule] = &[
    scan_rule(
        "hidden_text",
        Error,
        "The text contains a message that is invisible to people and read by models; remove it.",
    ),
    scan_rule(
        "bidirectional_text",
        Error,
        "A character reverses the direction of the text or of a name; remove it.",
    ),
    scan_rule(
        "invisible_character",
        Warning,
        "An invisible character can hide text from people; remove it.",
    ),
    scan_rule(
        "hidden_instruction",
        Error,
        "A part that is not shown tells a model to disobey, or to hide something from its user; remove it.",
    ),
    scan_rule(
        "secret",
        Error,
        "This looks like a key or a token; revoke it, and pass secrets in `env` instead.",
    ),
    scan_rule("reverse_shell", Error, "A shell is connected to another machine; remove it."),
    scan_rule(
        "encoded_code",
        Error,
        "Code is decoded and run in one step, so that it cannot be reviewed; write it as plain code.",
    ),
    scan_rule(
        "remote_code",
        Error,
        "Code is downloaded and run, and can change at any time; include it in the skill.",
    ),
    scan_rule(
        "credential_theft",
        Error,
        "Credentials are read and sent away, or collected; remove it.",
    ),
    scan_rule(
        "environment_theft",
        Error,
        "All environment variables are sent to another machine; send only the necessary ones.",
    ),
    scan_rule("miner", Error, "This mines cryptocurrency; remove it."),
    scan_rule(
        "destruction",
        Error,
        "This deletes everything it has access to; name the files to delete.",
    ),
    scan_rule(
        "persistence",
        Error,
        "A program is installed to run again later, outside the skill; remove it.",
    ),
    scan_rule(
        "collector",
        Warning,
        "The address belongs to a service that often receives stolen data; use your own.",
    ),
    scan_rule(
        "install_hook",
        Error,
        "Code runs when something is installed or started; let the user call it.",
    ),
    scan_rule(
        "foreign_package",
        Warning,
        "A package is not from the usual index; pin a released version.",
    ),
    scan_rule(
        "typosquat",
        Error,
        "A package name is one typing error away from a popular one; check that it is intended.",
    ),
    scan_rule(
        "native_program",
        Warning,
        "This is a compiled program, which cannot be reviewed; include its source.",
    ),
    scan_rule("scanned_in_part", Error, "The file is too long to be scanned completely; split it."),
];
