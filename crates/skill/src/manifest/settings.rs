//! The settings of one document about how a skill runs, and merging those of several documents.
//!
//! The same settings can be in the frontmatter, in flat keys under `metadata`, and in a sidecar
//! file. Limits and permissions merge by intersection, so that the smaller one counts; of
//! everything else the first one counts. Contradictions are reported.

use language::Language;
use serde_json::Value;

use super::fields::{Located, YamlFields};
use super::{SkillMode, SkillResources, values};
use crate::error::printable;
use crate::finding::{Diagnostics, Finding};
use crate::{Permissions, format_cpu, format_duration, format_memory};

/// The settings of one document. All are optional.
#[derive(Default)]
pub(super) struct ManifestSettings<'a> {
    pub version: Option<Located<'a, String>>,
    pub lang: Option<Located<'a, Language>>,
    pub image: Option<Located<'a, String>>,
    pub entrypoint: Option<Located<'a, String>>,
    pub mode: Option<Located<'a, SkillMode>>,
    pub idempotent: Option<Located<'a, bool>>,
    pub timeout_ms: Option<Located<'a, u64>>,
    pub memory_bytes: Option<Located<'a, u64>>,
    pub cpu_millis: Option<Located<'a, u32>>,
    pub output_bytes: Option<Located<'a, u64>>,
    pub input_schema: Option<Located<'a, Value>>,
    pub output_schema: Option<Located<'a, Value>>,
    pub permissions: Option<Located<'a, Permissions>>,
}

impl<'a> ManifestSettings<'a> {
    /// Reads the keys of our own format. Callers read `memory` and `cpu`, whose keys differ.
    pub(super) fn read(fields: &mut YamlFields<'a>, diagnostics: &mut Diagnostics) -> Self {
        Self {
            version: read_version(fields, diagnostics),
            lang: fields.optional("lang", values::language, diagnostics),
            image: fields.text("image", diagnostics),
            entrypoint: fields.text("entrypoint", diagnostics),
            mode: fields.optional("mode", str::parse, diagnostics),
            idempotent: fields.optional("idempotent", values::flag, diagnostics),
            timeout_ms: fields.optional("timeout", values::timeout, diagnostics),
            input_schema: fields.schema("input_schema", diagnostics),
            output_schema: fields.schema("output_schema", diagnostics),
            permissions: read_permissions(fields, diagnostics),
            ..Self::default()
        }
    }

    /// Reads the frontmatter, where memory and CPU are under `resources`.
    pub(super) fn from_frontmatter(
        fields: &mut YamlFields<'a>,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut settings = Self::read(fields, diagnostics);
        let mut resources = fields.nested("resources", diagnostics);
        settings.memory_bytes = resources.optional("memory", values::memory, diagnostics);
        settings.cpu_millis = resources.optional("cpu", values::cpu, diagnostics);
        resources.report_unknown(diagnostics);
        settings
    }

    /// Reads flat keys such as `skillbox.timeout`, which keep a file valid for strict validators.
    /// Memory and CPU have two spellings. Each spelling has its own settings, so that both merge.
    pub(super) fn from_metadata(
        metadata: &YamlFields<'a>,
        diagnostics: &mut Diagnostics,
    ) -> [Self; 2] {
        let mut fields = metadata.with_prefix("skillbox.");
        let settings = Self::read(&mut fields, diagnostics);
        let mut read_amounts = |memory, cpu| {
            let memory = fields.optional(memory, values::memory, diagnostics);
            (memory, fields.optional(cpu, values::cpu, diagnostics))
        };
        let (memory_bytes, cpu_millis) = read_amounts("memory", "cpu");
        let short = Self { memory_bytes, cpu_millis, ..settings };
        let (memory_bytes, cpu_millis) = read_amounts("resources.memory", "resources.cpu");
        let long = Self { memory_bytes, cpu_millis, ..Self::default() };
        fields.report_unknown(diagnostics);
        [short, long]
    }
}

/// Reads the version. A version that was completed is reported, because other runtimes keep it as
/// written.
pub(super) fn read_version<'a>(
    fields: &mut YamlFields<'a>,
    diagnostics: &mut Diagnostics,
) -> Option<Located<'a, String>> {
    let mut written = String::new();
    let read = |text: &str| {
        written = text.to_owned();
        values::version(text)
    };
    let located = fields.optional("version", read, diagnostics)?;
    if located.value != written {
        let message =
            format!("`{}` is read as {}; write three numbers", printable(&written), located.value);
        diagnostics
            .lints
            .push(Finding::from_rule("version_adapted", message).at(located.path, located.line));
    }
    Some(located)
}

pub(super) fn read_permissions<'a>(
    fields: &mut YamlFields<'a>,
    diagnostics: &mut Diagnostics,
) -> Option<Located<'a, Permissions>> {
    let Located { value, path, key, line } = fields.json("permissions", diagnostics)?;
    Some(Located { value: Permissions::from(value), path, key, line })
}

/// The settings of several documents, in order of precedence.
pub(super) struct MergedSettings<'a> {
    pub settings: Vec<ManifestSettings<'a>>,
}

impl<'a> MergedSettings<'a> {
    /// The first value. Different values in later documents are reported.
    pub(super) fn first_value<T: PartialEq>(
        &mut self,
        part: impl Fn(&mut ManifestSettings<'a>) -> Option<Located<'a, T>>,
        diagnostics: &mut Diagnostics,
    ) -> Option<T> {
        let mut all = self.settings.iter_mut().filter_map(part);
        let first = all.next()?;
        for other in all.filter(|other| other.value != first.value) {
            let message = format!(
                "`{}` says something else than `{}` in {} line {}, which counts; make them equal or remove one",
                other.key, first.key, first.path, first.line
            );
            diagnostics.lints.push(conflict_finding(&other, message));
        }
        Some(first.value)
    }

    /// The smallest value. A request must not widen a limit that another document sets.
    pub(super) fn smallest<T: Ord + Copy>(
        &mut self,
        part: impl Fn(&mut ManifestSettings<'a>) -> Option<Located<'a, T>>,
        show: impl Fn(T) -> String,
        diagnostics: &mut Diagnostics,
    ) -> Option<T> {
        let all: Vec<Located<'a, T>> = self.settings.iter_mut().filter_map(part).collect();
        let smallest = all.iter().min_by_key(|located| located.value)?;
        for other in all.iter().filter(|other| other.value != smallest.value) {
            let message = format!(
                "`{}` is {}, and `{}` in {} line {} is {}, which is tighter and counts; make them equal or remove one",
                other.key,
                show(other.value),
                smallest.key,
                smallest.path,
                smallest.line,
                show(smallest.value)
            );
            diagnostics.lints.push(conflict_finding(other, message));
        }
        Some(smallest.value)
    }

    pub(super) fn resources(&mut self, diagnostics: &mut Diagnostics) -> SkillResources {
        SkillResources {
            memory_bytes: self.smallest(
                |settings| settings.memory_bytes.take(),
                format_memory,
                diagnostics,
            ),
            cpu_millis: self.smallest(
                |settings| settings.cpu_millis.take(),
                format_cpu,
                diagnostics,
            ),
            output_bytes: self.smallest(
                |settings| settings.output_bytes.take(),
                format_memory,
                diagnostics,
            ),
        }
    }

    pub(super) fn timeout(&mut self, diagnostics: &mut Diagnostics) -> Option<u64> {
        self.smallest(|settings| settings.timeout_ms.take(), format_duration, diagnostics)
    }

    /// The intersection of all permissions. Permissions that no sandbox grants are reported at
    /// their own location.
    pub(super) fn permissions(&mut self, diagnostics: &mut Diagnostics) -> Permissions {
        let all: Vec<Located<'a, Permissions>> =
            self.settings.iter_mut().filter_map(|settings| settings.permissions.take()).collect();
        for located in &all {
            report_permissions(located, diagnostics);
        }
        let mut all = all.into_iter();
        let Some(first) = all.next() else { return Permissions::default() };
        let mut granted = first.value.clone();
        for other in all {
            if other.value != first.value {
                let message = format!(
                    "`{}` asks for something else than {} line {}; only what both ask for counts, so make them equal",
                    other.key, first.path, first.line
                );
                diagnostics.lints.push(conflict_finding(&other, message));
            }
            granted = granted.intersect(other.value);
        }
        granted
    }
}

fn conflict_finding<T>(located: &Located<'_, T>, message: String) -> Finding {
    Finding::from_rule("setting_conflict", message).at(located.path, located.line)
}

fn report_permissions(located: &Located<'_, Permissions>, diagnostics: &mut Diagnostics) {
    let unknown: Vec<&str> = located.value.unknown_names().collect();
    if !unknown.is_empty() {
        let names: Vec<String> =
            unknown.iter().map(|name| format!("`{}`", printable(name))).collect();
        let message = format!(
            "no permission is called {}, so no run is allowed; the permissions are network, filesystem, env_vars and syscalls",
            names.join(" or ")
        );
        diagnostics
            .lints
            .push(Finding::from_rule("unknown_permission", message).at(located.path, located.line));
    }
    let known = Permissions { unknown: serde_json::Map::new(), ..located.value.clone() };
    let refused = known.list_refused();
    if !refused.is_empty() {
        let message = format!(
            "no sandbox here grants {}, so no run is allowed; leave it out",
            refused.join(", ")
        );
        diagnostics
            .lints
            .push(Finding::from_rule("permission_refused", message).at(located.path, located.line));
    }
}
