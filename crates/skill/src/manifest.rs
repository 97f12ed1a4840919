//! What a skill says about itself, judged: the frontmatter of `SKILL.md`, or the manifest of
//! another dialect, with the sidecar beside it.
//!
//! A field that is wrong is a problem; one that is merely unusual becomes a remark. All problems
//! are collected, so that an author sees them at once. Nothing here looks at the skill's other
//! files.

use language::Language;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod fields;
mod settings;
mod sidecar;
mod skillware;
mod values;

use crate::finding::{Finding, Notes};
use crate::frontmatter::{Frontmatter, clean_text};
use crate::yaml::{self, Node};
use crate::{Permissions, SkillError};
use fields::{Document, Fields, Said};
use settings::{Merged, Settings};
use sidecar::Sidecar;
pub(crate) use skillware::has_execute;

/// What a skill says about itself, and its instructions. It is stored as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub name: String,
    pub description: String,
    pub version: String,
    /// As declared; [`crate::Package::lang`] also knows what the entrypoint is.
    pub lang: Option<Language>,
    pub image: Option<String>,
    pub entrypoint: Option<String>,
    /// Arguments the entrypoint is always given, before the caller's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entrypoint_args: Vec<String>,
    /// Options of its interpreter, where a command says them; else those of its first line count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint_flags: Option<Vec<String>>,
    /// The entrypoint expects to start in the skill's own directory, unless the caller says
    /// otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_in_skill: bool,
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub resources: Resources,
    pub mode: Mode,
    /// The author's promise that running it twice with one request does no more than running it
    /// once.
    #[serde(default)]
    pub idempotent: bool,
    pub license: Option<String>,
    pub compatibility: Option<String>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Advice for models; it never grants anything.
    pub allowed_tools: Option<String>,
    pub input_schema: Option<Value>,
    pub output_schema: Option<Value>,
    /// The capability manifest; `{}` asks for nothing.
    #[serde(default)]
    pub permissions: Permissions,
    /// Keys we do not know, kept as they were written.
    #[serde(default)]
    pub unknown: Map<String, Value>,
    /// The Markdown below the frontmatter.
    pub instructions: String,
}

/// What a run of the skill asks for; the server's and the tenant's limits still hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    pub memory_bytes: Option<u64>,
    pub cpu_millis: Option<u32>,
    /// Of the log and of the output document, each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
}

/// Whether a skill is there to be run or to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Executable,
    Cognitive,
}

const DEFAULT_VERSION: &str = "1.0.0";
/// Fields of ours that the specification does not know.
const NOT_IN_SPEC: [&str; 11] = [
    "version", "lang", "image", "entrypoint", "timeout", "resources", "mode", "idempotent",
    "input_schema", "output_schema", "permissions",
];

/// The documents of a skill, read but not yet understood.
pub(crate) enum Sheets<'a> {
    /// `SKILL.md`, and perhaps a sidecar.
    Open(Frontmatter<'a>, Option<Sheet<'a>>),
    /// A Skillware manifest with its instructions, and perhaps a sidecar.
    Skillware(Sheet<'a>, &'a str, Option<Sheet<'a>>),
    /// Nothing but the sidecar.
    Sidecar(Sheet<'a>),
}

/// A file that is YAML as a whole.
pub(crate) struct Sheet<'a> {
    document: Document<'a>,
    root: Option<Node>,
}

impl<'a> Sheet<'a> {
    pub(crate) fn read(path: &'a str, bytes: &[u8]) -> Result<Self, SkillError> {
        yaml::check_len(bytes.len() as u64).map_err(|error| error.in_file(path, 0))?;
        let root = yaml::parse(clean_text(path, bytes)?).map_err(|error| error.in_file(path, 0))?;
        Ok(Self { document: Document { path, lines_above: 0 }, root })
    }
}

/// The file that names the skill, and the lines its keys stand on.
#[derive(Default)]
pub(crate) struct Origin<'a> {
    pub path: &'a str,
    lines: Vec<(String, u32)>,
    /// The place that names the entrypoint, which may be another file.
    entrypoint: Option<(&'a str, u32)>,
    /// The places of both schemas, which may stand under other keys.
    pub input_schema: Option<(&'a str, u32)>,
    pub output_schema: Option<(&'a str, u32)>,
}

impl Origin<'_> {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.lines.iter().any(|(found, _)| found == key)
    }

    /// The finding at the key it is about, or else at the top.
    pub(crate) fn at(&self, finding: Finding, key: &str) -> Finding {
        if let Some((path, line)) = self.entrypoint.filter(|_| key == "entrypoint") {
            return finding.at(path, line);
        }
        let line = self.lines.iter().find(|(found, _)| found == key).map_or(1, |(_, line)| *line);
        finding.at(self.path, line)
    }
}

/// What the naming document says, before the settings of all places are put together.
#[derive(Default)]
struct Basis<'a> {
    origin: Origin<'a>,
    name: String,
    description: String,
    license: Option<String>,
    compatibility: Option<String>,
    metadata: Map<String, Value>,
    allowed_tools: Option<String>,
    unknown: Map<String, Value>,
    instructions: String,
    places: Vec<Settings<'a>>,
}

/// How the entrypoint is started, where its place says more than a path.
#[derive(Default)]
struct Start {
    args: Vec<String>,
    /// Options of this language's interpreter.
    flags: Option<(Language, Vec<String>)>,
    /// In the skill's own directory.
    in_skill: bool,
}

impl Manifest {
    /// Understands the documents. `has_scripts` decides the mode where the author did not.
    pub(crate) fn read<'a>(
        sheets: Sheets<'a>,
        has_scripts: bool,
        notes: &mut Notes,
    ) -> (Self, Origin<'a>) {
        let (mut basis, sidecar) = match sheets {
            Sheets::Open(frontmatter, sidecar) => (of_frontmatter(frontmatter, notes), sidecar),
            Sheets::Skillware(sheet, text, sidecar) => {
                (skillware::read(sheet, text, notes), sidecar)
            }
            Sheets::Sidecar(sheet) => return of_sidecar(sheet, has_scripts, notes),
        };
        let mut start = Start::default();
        if let Some(sheet) = sidecar {
            let sidecar = Sidecar::read(sheet, notes);
            sidecar.compare_name(&basis.name, notes);
            start = sidecar.start;
            basis.places.push(sidecar.settings);
        }
        // They belong to the sidecar's script, which counts only where nobody else names one.
        if basis.places.iter().rev().skip(1).any(|place| place.entrypoint.is_some()) {
            start = Start::default();
        }
        basis.merge(start, has_scripts, notes)
    }
}

impl<'a> Basis<'a> {
    fn merge(self, start: Start, has_scripts: bool, notes: &mut Notes) -> (Manifest, Origin<'a>) {
        let origin = Origin {
            entrypoint: place_of(&self.places, |place| place.entrypoint.as_ref()),
            input_schema: place_of(&self.places, |place| place.input_schema.as_ref()),
            output_schema: place_of(&self.places, |place| place.output_schema.as_ref()),
            ..self.origin
        };
        let mut merged = Merged { places: self.places };
        let lang = merged.first(|place| place.lang.take(), notes);
        let own_flags = start.flags.filter(|(own, _)| lang == Some(*own));
        let default_mode = if has_scripts { Mode::Executable } else { Mode::Cognitive };
        let manifest = Manifest {
            name: self.name,
            description: self.description,
            version: merged
                .first(|place| place.version.take(), notes)
                .unwrap_or_else(|| DEFAULT_VERSION.to_owned()),
            lang,
            image: merged.first(|place| place.image.take(), notes),
            entrypoint: merged.first(|place| place.entrypoint.take(), notes),
            entrypoint_args: start.args,
            entrypoint_flags: own_flags.map(|(_, flags)| flags),
            starts_in_skill: start.in_skill,
            timeout_ms: merged.timeout(notes),
            resources: merged.resources(notes),
            mode: merged.first(|place| place.mode.take(), notes).unwrap_or(default_mode),
            idempotent: merged.first(|place| place.idempotent.take(), notes).unwrap_or(false),
            license: self.license,
            compatibility: self.compatibility,
            metadata: self.metadata,
            allowed_tools: self.allowed_tools,
            input_schema: merged.first(|place| place.input_schema.take(), notes),
            output_schema: merged.first(|place| place.output_schema.take(), notes),
            permissions: merged.permissions(notes),
            unknown: self.unknown,
            instructions: self.instructions,
        };
        (manifest, origin)
    }
}

/// Where the first of these places that says it says it.
fn place_of<'a, 's, T: 's>(
    places: &'s [Settings<'a>],
    part: impl Fn(&'s Settings<'a>) -> Option<&'s Said<'a, T>>,
) -> Option<(&'a str, u32)> {
    places.iter().find_map(part).map(|said| (said.path, said.line))
}

fn of_frontmatter<'a>(frontmatter: Frontmatter<'a>, notes: &mut Notes) -> Basis<'a> {
    let document = Document { path: frontmatter.path, lines_above: 1 };
    let mut fields = Fields::new(document, frontmatter.root, notes);
    let origin = Origin { path: frontmatter.path, lines: fields.lines(), ..Origin::default() };
    for key in NOT_IN_SPEC.iter().filter(|key| origin.has(key)) {
        let message = format!(
            "the specification does not know `{key}`; write it as `skillbox.{key}` under `metadata`"
        );
        notes.remarks.push(origin.at(Finding::noted("key_not_in_spec", message), key));
    }
    let metadata = fields.nested("metadata", notes);
    let own = Settings::of_frontmatter(&mut fields, notes);
    let [flat, more] = Settings::of_metadata(&metadata, notes);
    Basis {
        name: fields.required("name", "name_missing", values::name, notes),
        description: fields.required(
            "description",
            "description_missing",
            |text| Ok(text.trim().to_owned()),
            notes,
        ),
        license: fields.prose("license", notes),
        compatibility: fields.prose("compatibility", notes),
        metadata: metadata.into_text_map("metadata_not_strings", notes),
        allowed_tools: read_allowed_tools(&mut fields, notes),
        unknown: fields.rest(notes),
        instructions: frontmatter.body.to_owned(),
        places: vec![own, flat, more],
        origin,
    }
}

/// A directory with nothing but the sidecar to say what it is.
fn of_sidecar<'a>(
    sheet: Sheet<'a>,
    has_scripts: bool,
    notes: &mut Notes,
) -> (Manifest, Origin<'a>) {
    let sidecar = Sidecar::read(sheet, notes);
    let origin = Origin { path: sidecar.path, lines: sidecar.lines, ..Origin::default() };
    let mut required = |said: Option<Said<'a, String>>, key: &str, missing| {
        let message = format!("`skill.{key}` is missing or cannot be used; every skill needs one");
        if said.is_none() {
            notes.problems.push(origin.at(Finding::noted(missing, message), key));
        }
        said.map(|said| said.value).unwrap_or_default()
    };
    let name = required(sidecar.name, "name", "name_missing");
    let description = required(sidecar.description, "description", "description_missing");
    let message = format!("other runtimes read SKILL.md only; add one beside `{}`", origin.path);
    notes.remarks.push(Finding::noted("skill_file_foreign", message).at(origin.path, 1));
    let basis =
        Basis { name, description, origin, places: vec![sidecar.settings], ..Basis::default() };
    basis.merge(sidecar.start, has_scripts, notes)
}

fn read_allowed_tools(fields: &mut Fields<'_>, notes: &mut Notes) -> Option<String> {
    let said = fields.texts("allowed-tools", notes)?;
    if said.value.is_list {
        let message = "write `allowed-tools` as one string with spaces between the tools; not every runtime reads a list";
        notes.remarks.push(Finding::noted("allowed_tools_list", message).at(said.path, said.line));
    } else if said.value.items.iter().any(|text| has_outer_comma(text)) {
        let message = "write spaces between the tools of `allowed-tools`, without commas";
        notes
            .remarks
            .push(Finding::noted("allowed_tools_commas", message).at(said.path, said.line));
    }
    Some(said.value.items.join(" "))
}

/// A comma between tools, as opposed to one in the brackets of a tool.
fn has_outer_comma(text: &str) -> bool {
    let mut open = 0usize;
    text.chars().any(|c| {
        match c {
            '(' => open += 1,
            ')' => open = open.saturating_sub(1),
            _ => {}
        }
        c == ',' && open == 0
    })
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Cognitive => "cognitive",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "executable" => Ok(Self::Executable),
            "cognitive" => Ok(Self::Cognitive),
            other => Err(format!(
                "`{}` is not a mode; write executable or cognitive",
                crate::error::shown(other)
            )),
        }
    }
}
