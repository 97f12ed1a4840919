//! What one place says about how a skill runs, and what several places say together.
//!
//! The same settings may stand in the frontmatter, as flat keys under `metadata`, and in a sidecar
//! file. Limits and permissions merge by intersection, so that the tighter one counts; of
//! everything else the first place counts. Where places contradict each other, that is remarked
//! upon and nothing is guessed.

use language::Language;
use serde_json::Value;

use super::fields::{Fields, Said};
use super::{Mode, Resources, values};
use crate::error::shown;
use crate::finding::{Finding, Notes};
use crate::{Permissions, format_cpu, format_duration, format_memory};

/// One place's settings; everything may be missing.
#[derive(Default)]
pub(super) struct Settings<'a> {
    pub version: Option<Said<'a, String>>,
    pub lang: Option<Said<'a, Language>>,
    pub image: Option<Said<'a, String>>,
    pub entrypoint: Option<Said<'a, String>>,
    pub mode: Option<Said<'a, Mode>>,
    pub idempotent: Option<Said<'a, bool>>,
    pub timeout_ms: Option<Said<'a, u64>>,
    pub memory_bytes: Option<Said<'a, u64>>,
    pub cpu_millis: Option<Said<'a, u32>>,
    pub output_bytes: Option<Said<'a, u64>>,
    pub input_schema: Option<Said<'a, Value>>,
    pub output_schema: Option<Said<'a, Value>>,
    pub permissions: Option<Said<'a, Permissions>>,
}

impl<'a> Settings<'a> {
    /// The keys of our own format. `memory` and `cpu` are left to whoever knows where they stand.
    pub(super) fn read(fields: &mut Fields<'a>, notes: &mut Notes) -> Self {
        Self {
            version: read_version(fields, notes),
            lang: fields.optional("lang", values::language, notes),
            image: fields.text("image", notes),
            entrypoint: fields.text("entrypoint", notes),
            mode: fields.optional("mode", str::parse, notes),
            idempotent: fields.optional("idempotent", values::flag, notes),
            timeout_ms: fields.optional("timeout", values::timeout, notes),
            input_schema: fields.schema("input_schema", notes),
            output_schema: fields.schema("output_schema", notes),
            permissions: read_permissions(fields, notes),
            ..Self::default()
        }
    }

    /// The frontmatter's own: amounts stand under `resources`.
    pub(super) fn of_frontmatter(fields: &mut Fields<'a>, notes: &mut Notes) -> Self {
        let mut settings = Self::read(fields, notes);
        let mut resources = fields.nested("resources", notes);
        settings.memory_bytes = resources.optional("memory", values::memory, notes);
        settings.cpu_millis = resources.optional("cpu", values::cpu, notes);
        resources.rest(notes);
        settings
    }

    /// Flat keys, `skillbox.timeout`, which keep a file valid for strict validators. Amounts have
    /// two spellings, each of which is a place of its own, so that one beside the other is not
    /// lost.
    pub(super) fn of_metadata(metadata: &Fields<'a>, notes: &mut Notes) -> [Self; 2] {
        let mut fields = metadata.flat("skillbox.");
        let settings = Self::read(&mut fields, notes);
        let mut amounts = |memory, cpu| {
            let memory = fields.optional(memory, values::memory, notes);
            (memory, fields.optional(cpu, values::cpu, notes))
        };
        let (memory_bytes, cpu_millis) = amounts("memory", "cpu");
        let short = Self { memory_bytes, cpu_millis, ..settings };
        let (memory_bytes, cpu_millis) = amounts("resources.memory", "resources.cpu");
        let long = Self { memory_bytes, cpu_millis, ..Self::default() };
        fields.rest(notes);
        [short, long]
    }
}

/// A version that had to be filled up is remarked upon, because elsewhere it is another word.
pub(super) fn read_version<'a>(
    fields: &mut Fields<'a>,
    notes: &mut Notes,
) -> Option<Said<'a, String>> {
    let mut written = String::new();
    let read = |text: &str| {
        written = text.to_owned();
        values::version(text)
    };
    let said = fields.optional("version", read, notes)?;
    if said.value != written {
        let message =
            format!("`{}` is read as {}; write three numbers", shown(&written), said.value);
        notes.remarks.push(Finding::noted("version_adapted", message).at(said.path, said.line));
    }
    Some(said)
}

pub(super) fn read_permissions<'a>(
    fields: &mut Fields<'a>,
    notes: &mut Notes,
) -> Option<Said<'a, Permissions>> {
    let Said { value, path, key, line } = fields.json("permissions", notes)?;
    Some(Said { value: Permissions::from(value), path, key, line })
}

/// Several places in the order in which they count.
pub(super) struct Merged<'a> {
    pub places: Vec<Settings<'a>>,
}

impl<'a> Merged<'a> {
    /// What the first place says that says anything.
    pub(super) fn first<T: PartialEq>(
        &mut self,
        part: impl Fn(&mut Settings<'a>) -> Option<Said<'a, T>>,
        notes: &mut Notes,
    ) -> Option<T> {
        let mut all = self.places.iter_mut().filter_map(part);
        let first = all.next()?;
        for other in all.filter(|other| other.value != first.value) {
            let message = format!(
                "`{}` says something else than `{}` in {} line {}, which counts; make them equal or remove one",
                other.key, first.key, first.path, first.line
            );
            notes.remarks.push(conflict(&other, message));
        }
        Some(first.value)
    }

    /// The smallest of all.
    pub(super) fn tightest<T: Ord + Copy>(
        &mut self,
        part: impl Fn(&mut Settings<'a>) -> Option<Said<'a, T>>,
        show: impl Fn(T) -> String,
        notes: &mut Notes,
    ) -> Option<T> {
        let all: Vec<Said<'a, T>> = self.places.iter_mut().filter_map(part).collect();
        let tightest = all.iter().min_by_key(|said| said.value)?;
        for other in all.iter().filter(|other| other.value != tightest.value) {
            let message = format!(
                "`{}` is {}, and `{}` in {} line {} is {}, which is tighter and counts; make them equal or remove one",
                other.key,
                show(other.value),
                tightest.key,
                tightest.path,
                tightest.line,
                show(tightest.value)
            );
            notes.remarks.push(conflict(other, message));
        }
        Some(tightest.value)
    }

    pub(super) fn resources(&mut self, notes: &mut Notes) -> Resources {
        Resources {
            memory_bytes: self.tightest(|place| place.memory_bytes.take(), format_memory, notes),
            cpu_millis: self.tightest(|place| place.cpu_millis.take(), format_cpu, notes),
            output_bytes: self.tightest(|place| place.output_bytes.take(), format_memory, notes),
        }
    }

    pub(super) fn timeout(&mut self, notes: &mut Notes) -> Option<u64> {
        self.tightest(|place| place.timeout_ms.take(), format_duration, notes)
    }

    /// What all of them grant; what cannot be granted at all is said where it is asked for.
    pub(super) fn permissions(&mut self, notes: &mut Notes) -> Permissions {
        let all: Vec<Said<'a, Permissions>> =
            self.places.iter_mut().filter_map(|place| place.permissions.take()).collect();
        for said in &all {
            remark_on_permissions(said, notes);
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
                notes.remarks.push(conflict(&other, message));
            }
            granted = granted.intersect(other.value);
        }
        granted
    }
}

fn conflict<T>(said: &Said<'_, T>, message: String) -> Finding {
    Finding::noted("setting_conflict", message).at(said.path, said.line)
}

fn remark_on_permissions(said: &Said<'_, Permissions>, notes: &mut Notes) {
    let unknown: Vec<&str> = said.value.unknown_names().collect();
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|name| format!("`{}`", shown(name))).collect();
        let message = format!(
            "no permission is called {}, so no run is allowed; the permissions are network, filesystem, env_vars and syscalls",
            names.join(" or ")
        );
        notes.remarks.push(Finding::noted("unknown_permission", message).at(said.path, said.line));
    }
    let known = Permissions { unknown: serde_json::Map::new(), ..said.value.clone() };
    let refused = known.refused();
    if !refused.is_empty() {
        let message = format!(
            "no sandbox here grants {}, so no run is allowed; leave it out",
            refused.join(", ")
        );
        notes.remarks.push(Finding::noted("permission_refused", message).at(said.path, said.line));
    }
}
