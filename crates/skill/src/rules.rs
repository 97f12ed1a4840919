//! The table of finding codes: how to fix each, and its severity in each profile.
//!
//! Clients rely on codes: new ones may be added, but none changes its meaning. The table in
//! docs/skill-format.md is generated from this one.

use crate::{Profile, Severity};

/// One finding code.
#[derive(Debug, Clone, Copy)]
pub struct FindingRule {
    pub code: &'static str,
    /// One sentence: the problem and how to fix it.
    pub help: &'static str,
    by_profile: [Option<Severity>; 4],
}

impl FindingRule {
    /// The severity in this profile; `None` if the profile does not show it.
    pub fn severity(&self, profile: Profile) -> Option<Severity> {
        let [default, strict, anthropic, openai] = self.by_profile;
        match profile {
            Profile::Default => default,
            Profile::Strict => strict,
            Profile::Anthropic => anthropic,
            Profile::OpenAi => openai,
        }
    }
}

pub(crate) fn find(code: &str) -> Option<&'static FindingRule> {
    RULES.iter().find(|rule| rule.code == code)
}

pub(crate) fn severity(code: &str, profile: Profile) -> Option<Severity> {
    find(code).and_then(|rule| rule.severity(profile))
}

const E: Option<Severity> = Some(Severity::Error);
const W: Option<Severity> = Some(Severity::Warning);
const I: Option<Severity> = Some(Severity::Info);
const N: Option<Severity> = None;

/// In the order default, strict, anthropic, openai.
const fn rule(
    code: &'static str,
    by_profile: [Option<Severity>; 4],
    help: &'static str,
) -> FindingRule {
    FindingRule { code, help, by_profile }
}

/// An error in every profile; the skill is rejected.
const fn error_rule(code: &'static str, help: &'static str) -> FindingRule {
    rule(code, [E, E, E, E], help)
}

/// The same severity in every profile.
pub(crate) const fn scan_rule(
    code: &'static str,
    severity: Severity,
    help: &'static str,
) -> FindingRule {
    let severity = Some(severity);
    rule(code, [severity, severity, severity, severity], help)
}

/// All rules of the format: first the errors of reading, then the lints.
pub static RULES: &[FindingRule] = &[
    error_rule(
        "no_skill_file",
        "There is no SKILL.md; put one at the root of the skill or inside its single top directory.",
    ),
    error_rule("skill_file_large", "SKILL.md is too long; move detail into files beside it."),
    error_rule("not_utf8", "The file is not UTF-8; save it as UTF-8."),
    error_rule("control_character", "The text contains a control character; remove it."),
    error_rule(
        "frontmatter_missing",
        "SKILL.md must begin with a line of exactly `---`; put name and description below it.",
    ),
    error_rule(
        "frontmatter_unclosed",
        "The frontmatter never ends; close it with a line of exactly `---`.",
    ),
    error_rule(
        "frontmatter_not_mapping",
        "The document is not a list of keys; write `key: value` lines.",
    ),
    error_rule(
        "yaml_syntax",
        "The text is not YAML; check the indentation, and quote values that contain `: ` or `#`.",
    ),
    error_rule("yaml_duplicate_key", "A key occurs twice; keep one of them."),
    error_rule(
        "yaml_anchor",
        "YAML anchors and aliases are not read; write the value where it is needed.",
    ),
    error_rule("yaml_tag", "YAML tags are not read; write the plain value."),
    error_rule("yaml_key", "A key is not plain text; write a word."),
    error_rule("yaml_documents", "There is more than one YAML document; keep the first."),
    error_rule(
        "yaml_large",
        "The YAML is too long, too deep or has too many values; move detail into the instructions.",
    ),
    error_rule("name_missing", "Every skill needs a `name`; add one."),
    error_rule(
        "name_invalid",
        "The name cannot be used; take at most 128 letters, digits, `.`, `_` and `-`, a letter or digit first.",
    ),
    error_rule(
        "description_missing",
        "Every skill needs a `description`; say what it does and when to use it.",
    ),
    error_rule("version_invalid", "The version is not one; write three numbers such as 1.2.0."),
    error_rule("lang_invalid", "The language is not supported; use one that the message lists."),
    error_rule("mode_invalid", "The mode is not one; write executable or cognitive."),
    error_rule("timeout_invalid", "The timeout is not a duration; write 500ms, 60s or 1m30s."),
    error_rule(
        "resources_invalid",
        "The amount is not understood; write memory as 256Mi and CPU as 0.5.",
    ),
    error_rule("idempotent_invalid", "`idempotent` is neither true nor false; write one of them."),
    error_rule("schema_invalid", "The schema is not a JSON Schema; write it as a mapping."),
    error_rule(
        "schema_unusable",
        "The schema cannot be enforced; the message says which part of it to change.",
    ),
    error_rule(
        "field_type",
        "The field has another shape than it must have; the message says which.",
    ),
    error_rule(
        "not_an_archive",
        "The file is not a zip that can be read; pack the directory again.",
    ),
    error_rule(
        "unsafe_path",
        "A path is absolute, leaves the skill or has odd characters; rename the file.",
    ),
    error_rule("link_entry", "Links are not accepted; put the file itself into the skill."),
    error_rule(
        "special_file",
        "Only regular files and directories are accepted; leave the rest out.",
    ),
    error_rule("duplicate_entry", "Two names are equal or differ only in case; rename one."),
    error_rule(
        "too_many_entries",
        "The skill has too many files; leave out what it does not need.",
    ),
    error_rule("too_large", "The skill is too large; leave out what it does not need."),
    error_rule("zip_bomb", "The archive unpacks to far more than it holds; leave such files out."),
    error_rule("header_mismatch", "The archive contradicts itself; pack it again."),
    error_rule(
        "unsupported_method",
        "Only stored and deflated entries are read; pack with plain zip.",
    ),
    error_rule("encrypted_entry", "Encrypted entries are not read; pack without a password."),
    error_rule("trailing_data", "The archive has bytes that belong to no file; pack it again."),
    error_rule("overlapping_entries", "Files of the archive overlap; pack it again."),
    error_rule(
        "signature_invalid",
        "SKILL.md.minisig is no signature; sign the skill again, or remove the file.",
    ),
    error_rule(
        "unreadable",
        "A file could not be read; check that it exists and is yours to read.",
    ),
    error_rule(
        "digest_mismatch",
        "The stored archive is not the one that was published; publish it again.",
    ),
    rule(
        "entrypoint_missing",
        [E, E, E, E],
        "`entrypoint` names no file that can run; correct the path.",
    ),
    rule(
        "name_not_portable",
        [W, E, E, E],
        "Other runtimes refuse the name; take at most 64 lower-case letters, digits and single hyphens.",
    ),
    rule(
        "name_not_directory",
        [W, E, W, W],
        "The directory has another name than the skill; make them equal.",
    ),
    rule("name_reserved", [N, N, E, N], "The name contains a reserved word; choose another."),
    rule(
        "description_long",
        [W, E, E, E],
        "The description has more than 1024 characters; shorten it.",
    ),
    rule(
        "description_unquoted",
        [W, E, E, E],
        "The description contains a colon and is not quoted, so it is not YAML elsewhere; put it in quotes.",
    ),
    rule(
        "description_tag",
        [N, N, E, W],
        "The description contains an XML tag; use words instead.",
    ),
    rule(
        "description_angle_bracket",
        [N, N, W, W],
        "The description contains `<` or `>`; use words instead.",
    ),
    rule(
        "short_description_long",
        [N, N, N, E],
        "`metadata.short-description` has more than 1024 characters; shorten it.",
    ),
    rule(
        "compatibility_long",
        [W, E, E, W],
        "`compatibility` has more than 500 characters; shorten it.",
    ),
    rule(
        "key_not_in_spec",
        [N, E, W, W],
        "The specification does not know this key; write it as `skillbox.…` under `metadata`.",
    ),
    rule(
        "unknown_key",
        [W, E, W, W],
        "The key is kept but does nothing; check its spelling, or move it under `metadata`.",
    ),
    rule(
        "metadata_not_strings",
        [N, E, N, N],
        "`metadata` maps words to texts and to nothing else; write the value as one text.",
    ),
    rule(
        "allowed_tools_list",
        [I, E, I, I],
        "`allowed-tools` is a list; write one string with spaces between the tools.",
    ),
    rule(
        "allowed_tools_commas",
        [N, E, N, N],
        "`allowed-tools` has commas between the tools; write spaces only.",
    ),
    rule(
        "text_not_single",
        [W, E, W, W],
        "A text is written as a list or a mapping; write it as one text.",
    ),
    rule(
        "version_adapted",
        [W, W, W, W],
        "The version has less than three numbers or a letter before them; write it as 1.2.0.",
    ),
    rule(
        "unknown_permission",
        [E, E, E, E],
        "No permission has this name, so no run is allowed; check its spelling, or leave it out.",
    ),
    rule(
        "permission_refused",
        [E, E, E, E],
        "No sandbox grants what is asked for, so no run is allowed; leave it out.",
    ),
    rule(
        "setting_conflict",
        [W, W, W, W],
        "Two places say different things; make them equal or remove one.",
    ),
    rule(
        "setting_ignored",
        [W, W, W, W],
        "The setting does nothing here; the message says what to do instead.",
    ),
    rule(
        "skill_file_foreign",
        [N, E, E, E],
        "There is no SKILL.md and other runtimes read nothing else; add one.",
    ),
    rule(
        "name_adapted",
        [I, I, I, I],
        "The name was shortened to its last part; call the skill that.",
    ),
    rule(
        "lang_mismatch",
        [W, W, W, W],
        "`lang` says one language and the entrypoint looks like another; correct one of them.",
    ),
    rule(
        "no_instructions",
        [W, W, W, W],
        "There is nothing below the frontmatter; say when and how to use the skill.",
    ),
    rule(
        "script_line_ends",
        [W, W, W, W],
        "The script has Windows line ends; save it with Unix ones.",
    ),
    rule(
        "script_option_dropped",
        [W, W, W, W],
        "An option of the interpreter on a script's first line is not one that is passed on; remove it.",
    ),
    rule(
        "skill_file_name",
        [W, E, W, W],
        "The file has another spelling than SKILL.md; rename it.",
    ),
    rule(
        "skill_files_several",
        [N, N, N, E],
        "There is another SKILL.md below the first; keep one in each skill.",
    ),
    rule(
        "files_many",
        [N, N, N, E],
        "The skill has more than 500 files; leave out what it does not need.",
    ),
    rule(
        "file_large",
        [N, N, N, E],
        "A file is larger than 25 MB; leave it out or make it smaller.",
    ),
    rule(
        "skill_large",
        [N, N, E, N],
        "The files are larger than 30 MB together; leave out what the skill does not need.",
    ),
    rule(
        "version_control",
        [W, W, W, W],
        "The repository's history is part of the skill; leave `.git` out.",
    ),
    rule(
        "instructions_long",
        [I, I, I, I],
        "The instructions have more than 500 lines; move detail into files beside them.",
    ),
    rule(
        "no_entrypoint",
        [I, I, I, I],
        "No script runs by default; callers name one, or add `entrypoint`.",
    ),
    rule(
        "junk_dropped",
        [I, I, I, I],
        "Files that the desktop left behind were dropped; nothing needs to be done.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_every_help_is_a_sentence() {
        let rules: Vec<&FindingRule> = RULES.iter().chain(crate::SCAN_RULES).collect();
        for (at, rule) in rules.iter().enumerate() {
            assert!(
                rule.code
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            );
            assert!(
                !rules[..at].iter().any(|other| other.code == rule.code),
                "{} stands twice",
                rule.code
            );
            assert!(
                rule.help.ends_with('.') && rule.help.contains([';', ',']),
                "{}: {}",
                rule.code,
                rule.help
            );
            assert!(
                Profile::ALL.iter().any(|profile| rule.severity(*profile).is_some()),
                "{}",
                rule.code
            );
        }
    }
}
