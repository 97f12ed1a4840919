//! `skillsandbox.yaml`: the capability manifest of another runtime, beside a `SKILL.md` or instead
//! of it.

use language::Language;

use super::fields::{Located, YamlFields};
use super::settings::{ManifestSettings, read_permissions, read_version};
use super::{EntrypointOptions, YamlDocument, values};
use crate::error::printable;
use crate::finding::{Diagnostics, Finding};
use crate::languages::split_options;
use crate::yaml::{YamlData, YamlNode};

pub(super) struct SidecarManifest<'a> {
    pub path: &'a str,
    /// The keys of the mapping `skill` and their lines.
    pub lines: Vec<(String, u32)>,
    pub name: Option<Located<'a, String>>,
    pub description: Option<Located<'a, String>>,
    pub settings: ManifestSettings<'a>,
    pub start: EntrypointOptions,
}

impl<'a> SidecarManifest<'a> {
    pub(super) fn read(document: YamlDocument<'a>, diagnostics: &mut Diagnostics) -> Self {
        let mut fields = YamlFields::new(document.document, document.root, diagnostics);
        let mut skill = fields.nested("skill", diagnostics);
        let lines = skill.lines();
        let name = skill.optional("name", values::name, diagnostics);
        let description = skill.text("description", diagnostics);
        let version = read_version(&mut skill, diagnostics);
        skill.take("author");
        skill.report_unknown(diagnostics);

        let mut settings = read_resources(fields.nested("resources", diagnostics), diagnostics);
        settings.version = version;
        settings.permissions = read_permissions(&mut fields, diagnostics);
        let command =
            fields.take("entrypoint").and_then(|node| read_command(&fields, node, diagnostics));
        fields.report_unknown(diagnostics);
        let mut sidecar = Self {
            path: document.document.path,
            lines,
            name,
            description,
            settings,
            start: EntrypointOptions::default(),
        };
        if let Some(command) = command {
            sidecar.take_command(command);
        }
        sidecar
    }

    fn take_command(&mut self, command: Located<'a, EntrypointCommand>) {
        let Located { value, path, key, line } = command;
        let located = |value| Located { value, path, key: key.clone(), line };
        self.settings.entrypoint = Some(located(value.script));
        self.settings.lang =
            value.lang.map(|value| Located { value, path, key: key.clone(), line });
        let flags = value.lang.map(|lang| (lang, value.flags));
        self.start = EntrypointOptions { args: value.args, flags, starts_in_skill: true };
    }

    /// Reports a name that differs from the one in `SKILL.md`, which takes precedence.
    pub(super) fn compare_name(&self, name: &str, diagnostics: &mut Diagnostics) {
        if let Some(located) =
            self.name.as_ref().filter(|located| located.value != name && !name.is_empty())
        {
            let message = format!(
                "`skill.name` is `{}`, and SKILL.md says `{name}`, which counts; make them equal",
                located.value
            );
            diagnostics.lints.push(
                Finding::from_rule("setting_conflict", message).at(located.path, located.line),
            );
        }
    }
}

fn read_resources<'a>(
    mut resources: YamlFields<'a>,
    diagnostics: &mut Diagnostics,
) -> ManifestSettings<'a> {
    /// Container engines count one core as a weight of 1,024.
    const SHARES_OF_A_CORE: u64 = 1_024;
    let shares = |text: &str| {
        let millis = values::whole(text, 1_000)? / SHARES_OF_A_CORE;
        u32::try_from(millis.max(1)).map_err(|_| format!("`{}` is too much", printable(text)))
    };
    let settings = ManifestSettings {
        memory_bytes: resources.optional(
            "memory_mb",
            |text| values::whole(text, 1 << 20),
            diagnostics,
        ),
        cpu_millis: resources.optional("cpu_shares", shares, diagnostics),
        timeout_ms: resources.optional(
            "max_runtime_seconds",
            |text| values::whole(text, 1_000),
            diagnostics,
        ),
        output_bytes: resources.optional(
            "max_output_bytes",
            |text| values::whole(text, 1),
            diagnostics,
        ),
        ..ManifestSettings::default()
    };
    resources.report_unknown(diagnostics);
    settings
}

/// The command of the entrypoint: a file of the skill, its interpreter and its arguments.
struct EntrypointCommand {
    script: String,
    lang: Option<Language>,
    /// Options of the interpreter.
    flags: Vec<String>,
    args: Vec<String>,
}

/// `entrypoint` as `{command, args, workdir}`, or as one line.
fn read_command<'a>(
    fields: &YamlFields<'a>,
    node: YamlNode,
    diagnostics: &mut Diagnostics,
) -> Option<Located<'a, EntrypointCommand>> {
    let words = match &node.data {
        YamlData::Scalar { text, .. } => text.split_whitespace().map(str::to_owned).collect(),
        YamlData::Mapping(_) => {
            let mut inner = YamlFields::new(fields.document, Some(node.clone()), diagnostics);
            let command = inner.text("command", diagnostics).map(|located| located.value);
            let args = inner
                .text_list("args", diagnostics)
                .map(|located| located.value.items)
                .unwrap_or_default();
            if let Some(located) = inner
                .text("workdir", diagnostics)
                .filter(|located| !is_skill_directory(&located.value))
            {
                let message = format!(
                    "`entrypoint.workdir` is `{}`, and the entrypoint starts in the skill's directory all the same; leave it out",
                    printable(&located.value)
                );
                diagnostics.lints.push(
                    Finding::from_rule("setting_ignored", message).at(located.path, located.line),
                );
            }
            inner.report_unknown(diagnostics);
            command.into_iter().chain(args).collect()
        }
        YamlData::Sequence(_) => Vec::new(),
    };
    match parse_command(words) {
        Some(command) => Some(fields.located("entrypoint", &node, command)),
        None => {
            fields.report_invalid(
                "field_type",
                "entrypoint",
                &node,
                "it must have a `command`, such as python3",
                diagnostics,
            );
            None
        }
    }
}

/// Whether this is the directory in which every command starts, in the spelling of other runtimes
/// or ours.
fn is_skill_directory(workdir: &str) -> bool {
    let workdir = workdir.strip_suffix('/').unwrap_or(workdir);
    let name = workdir.strip_prefix("/skills/");
    matches!(workdir, "." | "/skill" | "/sandbox/scripts")
        || name.is_some_and(|name| values::name(name).is_ok())
}

/// Parses a command line. The script follows the interpreter and its options, or is the first word.
fn parse_command(words: Vec<String>) -> Option<EntrypointCommand> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (first, rest) = words.split_first().filter(|(first, _)| !first.is_empty())?;
    let lang = Language::from_program(first);
    let (flags, rest) = lang.map_or((Vec::new(), rest), |lang| split_options(lang, rest));
    let (script, args) = match (lang, rest) {
        (Some(_), [script, args @ ..]) => (script, args),
        _ => (first, rest),
    };
    let script = script.strip_prefix("/skill/").unwrap_or(script).to_owned();
    Some(EntrypointCommand {
        script,
        lang,
        flags,
        args: args.iter().map(|word| (*word).to_owned()).collect(),
    })
}
