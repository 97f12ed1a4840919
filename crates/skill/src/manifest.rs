//! The manifest of a skill, parsed and validated: from the frontmatter of `SKILL.md` or the
//! manifest of another format, and the sidecar beside it.
//!
//! An invalid field is an error; an unusual one is a lint. All errors are collected, so that an
//! author sees them at once. No other file of the skill is read here.

use language::Language;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod fields;
mod settings;
mod sidecar;
mod skillware;
mod values;

use crate::finding::{Diagnostics, Finding};
use crate::frontmatter::{Frontmatter, validate_text};
use crate::yaml::{self, YamlNode};
use crate::{Permissions, SkillError};
use fields::{Document, Located, YamlFields};
use settings::{ManifestSettings, MergedSettings};
use sidecar::SidecarManifest;
pub(crate) use skillware::defines_execute;

/// The metadata and instructions of a skill. It is stored as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub name: String,
    pub description: String,
    pub version: String,
    /// As declared; [`crate::Package::lang`] falls back to the language of the entrypoint.
    pub lang: Option<Language>,
    pub image: Option<String>,
    pub entrypoint: Option<String>,
    /// Arguments that the entrypoint always gets, before those of the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entrypoint_args: Vec<String>,
    /// Options of its interpreter from a command; without them those of the shebang count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint_flags: Option<Vec<String>>,
    /// The entrypoint starts in the skill's own directory, unless the caller requests another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_in_skill: bool,
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub resources: SkillResources,
    pub mode: SkillMode,
    /// Whether the author declares that running it twice with the same request has the same effect
    /// as running it once.
    #[serde(default)]
    pub idempotent: bool,
    pub license: Option<String>,
    pub compatibility: Option<String>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// A hint for models; it grants nothing.
    pub allowed_tools: Option<String>,
    pub input_schema: Option<Value>,
    pub output_schema: Option<Value>,
    /// The requested permissions; `{}` requests none.
    #[serde(default)]
    pub permissions: Permissions,
    /// Unknown keys, kept as written.
    #[serde(default)]
    pub unknown: Map<String, Value>,
    /// The Markdown below the frontmatter.
    pub instructions: String,
}

/// The resources that a run of the skill requests; the limits of server and tenant still apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillResources {
    pub memory_bytes: Option<u64>,
    pub cpu_millis: Option<u32>,
    /// The limit of the log, and of the output document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
}

/// Whether a skill is run or only read by models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillMode {
    Executable,
    Cognitive,
}

const DEFAULT_VERSION: &str = "1.0.0";
/// Fields of Skillbox that are not in the specification.
const NOT_IN_SPEC: [&str; 11] = [
    "version", "lang", "image", "entrypoint", "timeout", "resources", "mode", "idempotent",
    "input_schema", "output_schema", "permissions",
];

/// The parsed documents that a manifest is read from.
pub(crate) enum ManifestSources<'a> {
    /// `SKILL.md`, with an optional sidecar.
    SkillFile(Frontmatter<'a>, Option<YamlDocument<'a>>),
    /// A Skillware manifest with its instructions and an optional sidecar.
    Skillware(YamlDocument<'a>, &'a str, Option<YamlDocument<'a>>),
    /// Only a sidecar.
    Sidecar(YamlDocument<'a>),
}

/// A file that consists of YAML.
pub(crate) struct YamlDocument<'a> {
    document: Document<'a>,
    root: Option<YamlNode>,
}

impl<'a> YamlDocument<'a> {
    pub(crate) fn read(path: &'a str, bytes: &[u8]) -> Result<Self, SkillError> {
        yaml::check_size(bytes.len() as u64).map_err(|error| error.in_file(path, 0))?;
        let root =
            yaml::parse(validate_text(path, bytes)?).map_err(|error| error.in_file(path, 0))?;
        Ok(Self { document: Document { path, lines_above: 0 }, root })
    }
}

/// The file with the name of the skill, and the lines of its keys, for findings.
#[derive(Default)]
pub(crate) struct Origin<'a> {
    pub path: &'a str,
    lines: Vec<(String, u32)>,
    /// The location of the entrypoint, which may be in another file.
    entrypoint: Option<(&'a str, u32)>,
    /// The locations of both schemas, which may have other keys.
    pub input_schema: Option<(&'a str, u32)>,
    pub output_schema: Option<(&'a str, u32)>,
}

impl Origin<'_> {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.lines.iter().any(|(found, _)| found == key)
    }

    /// The finding located at this key, or else at the first line.
    pub(crate) fn at(&self, finding: Finding, key: &str) -> Finding {
        if let Some((path, line)) = self.entrypoint.filter(|_| key == "entrypoint") {
            return finding.at(path, line);
        }
        let line = self.lines.iter().find(|(found, _)| found == key).map_or(1, |(_, line)| *line);
        finding.at(self.path, line)
    }
}

/// The fields of the main document, before the settings of all documents are merged.
#[derive(Default)]
struct ManifestParts<'a> {
    origin: Origin<'a>,
    name: String,
    description: String,
    license: Option<String>,
    compatibility: Option<String>,
    metadata: Map<String, Value>,
    allowed_tools: Option<String>,
    unknown: Map<String, Value>,
    instructions: String,
    settings: Vec<ManifestSettings<'a>>,
}

/// Options of the entrypoint from a sidecar, which has more than a path.
#[derive(Default)]
struct EntrypointOptions {
    args: Vec<String>,
    /// Options of this language's interpreter.
    flags: Option<(Language, Vec<String>)>,
    /// Whether it starts in the skill's own directory.
    starts_in_skill: bool,
}

impl Manifest {
    /// Reads the manifest. `has_scripts` decides the mode if the author did not.
    pub(crate) fn read<'a>(
        sources: ManifestSources<'a>,
        has_scripts: bool,
        diagnostics: &mut Diagnostics,
    ) -> (Self, Origin<'a>) {
        let (mut parts, sidecar) = match sources {
            ManifestSources::SkillFile(frontmatter, sidecar) => {
                (from_frontmatter(frontmatter, diagnostics), sidecar)
            }
            ManifestSources::Skillware(document, text, sidecar) => {
                (skillware::read(document, text, diagnostics), sidecar)
            }
            ManifestSources::Sidecar(document) => {
                return read_sidecar_only(document, has_scripts, diagnostics);
            }
        };
        let mut start = EntrypointOptions::default();
        if let Some(document) = sidecar {
            let sidecar = SidecarManifest::read(document, diagnostics);
            sidecar.compare_name(&parts.name, diagnostics);
            start = sidecar.start;
            parts.settings.push(sidecar.settings);
        }
        // They belong to the script of the sidecar, which only counts if no other document names an
        // entrypoint.
        if parts.settings.iter().rev().skip(1).any(|settings| settings.entrypoint.is_some()) {
            start = EntrypointOptions::default();
        }
        parts.merge(start, has_scripts, diagnostics)
    }
}

impl<'a> ManifestParts<'a> {
    fn merge(
        self,
        start: EntrypointOptions,
        has_scripts: bool,
        diagnostics: &mut Diagnostics,
    ) -> (Manifest, Origin<'a>) {
        let origin = Origin {
            entrypoint: location_of(&self.settings, |settings| settings.entrypoint.as_ref()),
            input_schema: location_of(&self.settings, |settings| settings.input_schema.as_ref()),
            output_schema: location_of(&self.settings, |settings| settings.output_schema.as_ref()),
            ..self.origin
        };
        let mut merged = MergedSettings { settings: self.settings };
        let lang = merged.first_value(|settings| settings.lang.take(), diagnostics);
        let own_flags = start.flags.filter(|(own, _)| lang == Some(*own));
        let default_mode = if has_scripts { SkillMode::Executable } else { SkillMode::Cognitive };
        let manifest = Manifest {
            name: self.name,
            description: self.description,
            version: merged
                .first_value(|settings| settings.version.take(), diagnostics)
                .unwrap_or_else(|| DEFAULT_VERSION.to_owned()),
            lang,
            image: merged.first_value(|settings| settings.image.take(), diagnostics),
            entrypoint: merged.first_value(|settings| settings.entrypoint.take(), diagnostics),
            entrypoint_args: start.args,
            entrypoint_flags: own_flags.map(|(_, flags)| flags),
            starts_in_skill: start.starts_in_skill,
            timeout_ms: merged.timeout(diagnostics),
            resources: merged.resources(diagnostics),
            mode: merged
                .first_value(|settings| settings.mode.take(), diagnostics)
                .unwrap_or(default_mode),
            idempotent: merged
                .first_value(|settings| settings.idempotent.take(), diagnostics)
                .unwrap_or(false),
            license: self.license,
            compatibility: self.compatibility,
            metadata: self.metadata,
            allowed_tools: self.allowed_tools,
            input_schema: merged.first_value(|settings| settings.input_schema.take(), diagnostics),
            output_schema: merged
                .first_value(|settings| settings.output_schema.take(), diagnostics),
            permissions: merged.permissions(diagnostics),
            unknown: self.unknown,
            instructions: self.instructions,
        };
        (manifest, origin)
    }
}

/// The location of the first of these settings that has the part.
fn location_of<'a, 's, T: 's>(
    settings: &'s [ManifestSettings<'a>],
    part: impl Fn(&'s ManifestSettings<'a>) -> Option<&'s Located<'a, T>>,
) -> Option<(&'a str, u32)> {
    settings.iter().find_map(part).map(|located| (located.path, located.line))
}

fn from_frontmatter<'a>(
    frontmatter: Frontmatter<'a>,
    diagnostics: &mut Diagnostics,
) -> ManifestParts<'a> {
    let document = Document { path: frontmatter.path, lines_above: 1 };
    let mut fields = YamlFields::new(document, frontmatter.root, diagnostics);
    let origin = Origin { path: frontmatter.path, lines: fields.lines(), ..Origin::default() };
    for key in NOT_IN_SPEC.iter().filter(|key| origin.has(key)) {
        let message = format!(
            "the specification does not know `{key}`; write it as `skillbox.{key}` under `metadata`"
        );
        diagnostics.lints.push(origin.at(Finding::from_rule("key_not_in_spec", message), key));
    }
    let metadata = fields.nested("metadata", diagnostics);
    let own = ManifestSettings::from_frontmatter(&mut fields, diagnostics);
    let [flat, more] = ManifestSettings::from_metadata(&metadata, diagnostics);
    ManifestParts {
        name: fields.required("name", "name_missing", values::name, diagnostics),
        description: fields.required(
            "description",
            "description_missing",
            |text| Ok(text.trim().to_owned()),
            diagnostics,
        ),
        license: fields.text_or_list("license", diagnostics),
        compatibility: fields.text_or_list("compatibility", diagnostics),
        metadata: metadata.into_text_map("metadata_not_strings", diagnostics),
        allowed_tools: read_allowed_tools(&mut fields, diagnostics),
        unknown: fields.report_unknown(diagnostics),
        instructions: frontmatter.body.to_owned(),
        settings: vec![own, flat, more],
        origin,
    }
}

/// Reads the manifest of a directory that has only a sidecar.
fn read_sidecar_only<'a>(
    document: YamlDocument<'a>,
    has_scripts: bool,
    diagnostics: &mut Diagnostics,
) -> (Manifest, Origin<'a>) {
    let sidecar = SidecarManifest::read(document, diagnostics);
    let origin = Origin { path: sidecar.path, lines: sidecar.lines, ..Origin::default() };
    let mut required = |located: Option<Located<'a, String>>, key: &str, missing| {
        let message = format!("`skill.{key}` is missing or cannot be used; every skill needs one");
        if located.is_none() {
            diagnostics.errors.push(origin.at(Finding::from_rule(missing, message), key));
        }
        located.map(|located| located.value).unwrap_or_default()
    };
    let name = required(sidecar.name, "name", "name_missing");
    let description = required(sidecar.description, "description", "description_missing");
    let message = format!("other runtimes read SKILL.md only; add one beside `{}`", origin.path);
    diagnostics.lints.push(Finding::from_rule("skill_file_foreign", message).at(origin.path, 1));
    let parts = ManifestParts {
        name,
        description,
        origin,
        settings: vec![sidecar.settings],
        ..ManifestParts::default()
    };
    parts.merge(sidecar.start, has_scripts, diagnostics)
}

fn read_allowed_tools(
    fields: &mut YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let located = fields.text_list("allowed-tools", diagnostics)?;
    if located.value.is_list {
        let message = "write `allowed-tools` as one string with spaces between the tools; not every runtime reads a list";
        diagnostics
            .lints
            .push(Finding::from_rule("allowed_tools_list", message).at(located.path, located.line));
    } else if located.value.items.iter().any(|text| has_outer_comma(text)) {
        let message = "write spaces between the tools of `allowed-tools`, without commas";
        diagnostics.lints.push(
            Finding::from_rule("allowed_tools_commas", message).at(located.path, located.line),
        );
    }
    Some(located.value.items.join(" "))
}

/// Whether a comma separates tools, as opposed to one inside the parentheses of a tool.
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

impl SkillMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Cognitive => "cognitive",
        }
    }
}

impl std::fmt::Display for SkillMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for SkillMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "executable" => Ok(Self::Executable),
            "cognitive" => Ok(Self::Cognitive),
            other => Err(format!(
                "`{}` is not a mode; write executable or cognitive",
                crate::error::printable(other)
            )),
        }
    }
}
