//! `skillsandbox.yaml`: another runtime's capability manifest, beside a `SKILL.md` or instead of
//! one.

use language::Language;

use super::fields::{Fields, Said};
use super::settings::{Settings, read_permissions, read_version};
use super::{Sheet, Start, values};
use crate::error::shown;
use crate::finding::{Finding, Notes};
use crate::languages::split_options;
use crate::yaml::{Data, Node};

pub(super) struct Sidecar<'a> {
    pub path: &'a str,
    /// Of the mapping `skill`, with the lines of its keys.
    pub lines: Vec<(String, u32)>,
    pub name: Option<Said<'a, String>>,
    pub description: Option<Said<'a, String>>,
    pub settings: Settings<'a>,
    pub start: Start,
}

impl<'a> Sidecar<'a> {
    pub(super) fn read(sheet: Sheet<'a>, notes: &mut Notes) -> Self {
        let mut fields = Fields::new(sheet.document, sheet.root, notes);
        let mut skill = fields.nested("skill", notes);
        let lines = skill.lines();
        let name = skill.optional("name", values::name, notes);
        let description = skill.text("description", notes);
        let version = read_version(&mut skill, notes);
        skill.take("author");
        skill.rest(notes);

        let mut settings = read_resources(fields.nested("resources", notes), notes);
        settings.version = version;
        settings.permissions = read_permissions(&mut fields, notes);
        let command = fields.take("entrypoint").and_then(|node| read_command(&fields, node, notes));
        fields.rest(notes);
        let mut sidecar = Self {
            path: sheet.document.path,
            lines,
            name,
            description,
            settings,
            start: Start::default(),
        };
        if let Some(command) = command {
            sidecar.take_command(command);
        }
        sidecar
    }

    fn take_command(&mut self, command: Said<'a, Command>) {
        let Said { value, path, key, line } = command;
        let said = |value| Said { value, path, key: key.clone(), line };
        self.settings.entrypoint = Some(said(value.script));
        self.settings.lang = value.lang.map(|value| Said { value, path, key: key.clone(), line });
        let flags = value.lang.map(|lang| (lang, value.flags));
        self.start = Start { args: value.args, flags, in_skill: true };
    }

    /// A name that contradicts the one in `SKILL.md`, which counts.
    pub(super) fn compare_name(&self, name: &str, notes: &mut Notes) {
        if let Some(said) = self.name.as_ref().filter(|said| said.value != name && !name.is_empty())
        {
            let message = format!(
                "`skill.name` is `{}`, and SKILL.md says `{name}`, which counts; make them equal",
                said.value
            );
            notes
                .remarks
                .push(Finding::noted("setting_conflict", message).at(said.path, said.line));
        }
    }
}

fn read_resources<'a>(mut resources: Fields<'a>, notes: &mut Notes) -> Settings<'a> {
    /// A weight of 1,024 is one core, as container engines count.
    const SHARES_OF_A_CORE: u64 = 1_024;
    let shares = |text: &str| {
        let millis = values::whole(text, 1_000)? / SHARES_OF_A_CORE;
        u32::try_from(millis.max(1)).map_err(|_| format!("`{}` is too much", shown(text)))
    };
    let settings = Settings {
        memory_bytes: resources.optional("memory_mb", |text| values::whole(text, 1 << 20), notes),
        cpu_millis: resources.optional("cpu_shares", shares, notes),
        timeout_ms: resources.optional(
            "max_runtime_seconds",
            |text| values::whole(text, 1_000),
            notes,
        ),
        output_bytes: resources.optional("max_output_bytes", |text| values::whole(text, 1), notes),
        ..Settings::default()
    };
    resources.rest(notes);
    settings
}

/// What is to be started: a file of the skill, what runs it, and its arguments.
struct Command {
    script: String,
    lang: Option<Language>,
    /// Of the interpreter.
    flags: Vec<String>,
    args: Vec<String>,
}

/// `entrypoint` as `{command, args, workdir}`, or as one line.
fn read_command<'a>(
    fields: &Fields<'a>,
    node: Node,
    notes: &mut Notes,
) -> Option<Said<'a, Command>> {
    let words = match &node.data {
        Data::Scalar { text, .. } => text.split_whitespace().map(str::to_owned).collect(),
        Data::Mapping(_) => {
            let mut inner = Fields::new(fields.document, Some(node.clone()), notes);
            let command = inner.text("command", notes).map(|said| said.value);
            let args = inner.texts("args", notes).map(|said| said.value.items).unwrap_or_default();
            if let Some(said) =
                inner.text("workdir", notes).filter(|said| !is_skill_directory(&said.value))
            {
                let message = format!(
                    "`entrypoint.workdir` is `{}`, and the entrypoint starts in the skill's directory all the same; leave it out",
                    shown(&said.value)
                );
                notes
                    .remarks
                    .push(Finding::noted("setting_ignored", message).at(said.path, said.line));
            }
            inner.rest(notes);
            command.into_iter().chain(args).collect()
        }
        Data::Sequence(_) => Vec::new(),
    };
    match command(words) {
        Some(command) => Some(fields.said("entrypoint", &node, command)),
        None => {
            fields.wrong(
                "field_type",
                "entrypoint",
                &node,
                "it must have a `command`, such as python3",
                notes,
            );
            None
        }
    }
}

/// Whether this is where every command starts, as other runtimes or we ourselves spell it.
fn is_skill_directory(workdir: &str) -> bool {
    let workdir = workdir.strip_suffix('/').unwrap_or(workdir);
    let name = workdir.strip_prefix("/skills/");
    matches!(workdir, "." | "/skill" | "/sandbox/scripts")
        || name.is_some_and(|name| values::name(name).is_ok())
}

/// The script of a command line: what follows the interpreter and its options, or the first word
/// itself.
fn command(words: Vec<String>) -> Option<Command> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (first, rest) = words.split_first().filter(|(first, _)| !first.is_empty())?;
    let lang = Language::from_program(first);
    let (flags, rest) = lang.map_or((Vec::new(), rest), |lang| split_options(lang, rest));
    let (script, args) = match (lang, rest) {
        (Some(_), [script, args @ ..]) => (script, args),
        _ => (first, rest),
    };
    let script = script.strip_prefix("/skill/").unwrap_or(script).to_owned();
    Some(Command {
        script,
        lang,
        flags,
        args: args.iter().map(|word| (*word).to_owned()).collect(),
    })
}
