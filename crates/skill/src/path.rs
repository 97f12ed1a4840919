//! The paths inside a skill: which are unsafe, collide, are junk, or have a wrapper directory.
//!
//! A path that passes is relative, has plain components only, and names the same file on every file
//! system.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

use crate::{Hazard, PackageLimits, SkillError, invisible};

/// A zip header counts the bytes of a name in sixteen bits.
const MAX_ZIP_NAME_BYTES: usize = 65_535;

/// Checks one path and returns its plain form, without a leading `./` and without the slash that
/// marks a directory.
///
/// The root itself (`./`) becomes the empty path.
pub(crate) fn normalize<'a>(name: &'a str, limits: &PackageLimits) -> Result<&'a str, SkillError> {
    let path = name.strip_prefix("./").unwrap_or(name);
    if path.is_empty() && !name.is_empty() {
        return Ok(path);
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    let plain = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
    let safe = path.len() <= limits.path_bytes.min(MAX_ZIP_NAME_BYTES)
        && !drive
        && !path.contains(|c: char| c == '\\' || c.is_control())
        && path.split('/').all(plain)
        && !has_file_version(path)
        && path.split('/').count() <= limits.depth.saturating_add(1);
    if safe { Ok(path) } else { Err(Hazard::UnsafePath.in_entry(name)) }
}

/// `a;1` is the first version of `a` on VMS, and Info-ZIP unpacks it as `a` wherever it runs.
fn has_file_version(path: &str) -> bool {
    path.rsplit_once(';')
        .is_some_and(|(_, version)| version.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Files that desktop systems create and that are not part of a skill.
pub(crate) fn is_junk(path: &str) -> bool {
    path.split('/').next() == Some("__MACOSX")
        || path
            .rsplit('/')
            .next()
            .is_some_and(|name| name == ".DS_Store" || name.eq_ignore_ascii_case("thumbs.db"))
}

/// The paths added so far, compared as by a file system that ignores case, Unicode composition and
/// invisible characters.
///
/// A tree, so that a deep path costs the length of its components and not the length of the paths
/// of all its parents.
#[derive(Default)]
pub(crate) struct PathSet {
    /// Keyed by the number of the parent and the folded name. The root is number 0.
    nodes: HashMap<(usize, String), PathNode>,
}

struct PathNode {
    number: usize,
    spelling: String,
    kind: PathKind,
}

#[derive(Clone, Copy, PartialEq)]
enum PathKind {
    File,
    /// A directory with its own entry, which may occur once.
    Directory,
    /// A directory that only occurs in the paths of other entries.
    Implied,
}

impl PathSet {
    /// Adds a checked path; fails if it cannot exist together with a path added before.
    pub(crate) fn insert(&mut self, path: &str, directory: bool) -> Result<(), SkillError> {
        let mut parent = 0;
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let kind = match (parts.peek(), directory) {
                (Some(_), _) => PathKind::Implied,
                (None, true) => PathKind::Directory,
                (None, false) => PathKind::File,
            };
            parent = self
                .insert_part(parent, part, kind)
                .ok_or_else(|| Hazard::Duplicate.in_entry(path))?;
        }
        Ok(())
    }

    /// The number of the name in its directory; `None` if it conflicts with another name there.
    fn insert_part(&mut self, parent: usize, name: &str, kind: PathKind) -> Option<usize> {
        let number = self.nodes.len() + 1;
        let new = || PathNode { number, spelling: name.to_owned(), kind };
        let node = self.nodes.entry((parent, fold(name))).or_insert_with(new);
        if node.number == number {
            return Some(number);
        }
        match (node.kind, kind) {
            (PathKind::Implied | PathKind::Directory, PathKind::Implied) => {}
            (PathKind::Implied, PathKind::Directory) => node.kind = PathKind::Directory,
            _ => return None,
        }
        (node.spelling == name).then_some(node.number)
    }
}

/// The form in which two names are equal if some file system takes them for the same name.
fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_uppercase();
    }
    let visible = name.chars().filter(|c| !invisible::is_ignorable(*c));
    // Down and up again, because both directions map several letters to one: `ẞ` to `ß`, `ß` to
    // `SS`, `ſ` to `S`.
    let upper = visible.nfd().collect::<String>().to_lowercase().to_uppercase();
    upper.nfd().collect()
}

/// The single top directory that contains everything, if the skill is in it and not at the root.
pub(crate) fn find_wrapper<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let (top, _) = paths.clone().next()?.split_once('/')?;
    let inside = |path: &'a str| path.strip_prefix(top)?.strip_prefix('/');
    if !paths.clone().all(|path| inside(path).is_some()) {
        return None;
    }
    is_skill(paths.filter_map(inside)).then_some(top)
}

/// Whether these paths are the files of a skill, by the names at its root, in any supported format.
pub fn is_skill<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> bool {
    let has = |name: &str| paths.clone().any(|path| path == name);
    paths.clone().any(is_skill_file)
        || has(SIDECAR)
        || (has(SKILLWARE_MANIFEST) && has(SKILLWARE_CODE))
}

pub(crate) const SKILL_FILE: &str = "SKILL.md";
/// The capability manifest beside a skill, or instead of its `SKILL.md`.
pub(crate) const SIDECAR: &str = "skillsandbox.yaml";
pub(crate) const SKILLWARE_MANIFEST: &str = "manifest.yaml";
pub(crate) const SKILLWARE_CODE: &str = "skill.py";
pub(crate) const SKILLWARE_TEXT: &str = "instructions.md";

/// Whether this is `SKILL.md` in any case.
pub(crate) fn is_skill_file(path: &str) -> bool {
    path.eq_ignore_ascii_case(SKILL_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_paths_are_normalized() {
        for (name, plain) in [
            ("SKILL.md", "SKILL.md"),
            ("./SKILL.md", "SKILL.md"),
            ("a/b/c.py", "a/b/c.py"),
            ("dir/", "dir"),
            ("./", ""),
            ("a/...", "a/..."),
            ("naïve/ünï.txt", "naïve/ünï.txt"),
            ("with space/a:b", "with space/a:b"),
            ("%2e%2e/x", "%2e%2e/x"),
            ("．．/x", "．．/x"),
            ("a;b", "a;b"),
            ("d;1/a", "d;1/a"),
        ] {
            assert_eq!(normalize(name, &PackageLimits::default()).ok(), Some(plain), "{name}");
        }
    }

    #[test]
    fn unsafe_paths_are_rejected() {
        let long = "x".repeat(256);
        let longer = "x/".repeat(300);
        let deep = "d/".repeat(33) + "f";
        for name in [
            "", "/", "/etc/passwd", "//x", "..", "../x", "a/../../x", "a/..", "./../x", "a/./b",
            ".", "a//b", "a//", "a;1", "d/a;", "a;b;22", "..\\x", "a\\b", "\\\\host\\x", "C:\\x",
            "C:/x", "c:x", "a\0b", "a\nb", "a\u{7f}", "a\u{85}b", ".//x", &long, &longer, &deep,
        ] {
            let error = normalize(name, &PackageLimits::default()).expect_err(name);
            assert_eq!(error.slug(), "unsafe_path", "{name}");
        }
    }

    #[test]
    fn conflicting_names_are_rejected() {
        for (names, compatible) in [
            (&["a", "b", "c/d", "c/e", "c/"][..], true),
            (&["c/", "c/d"], true),
            (&["a", "a"], false),
            (&["a", "A"], false),
            (&["ä", "Ä"], false),
            (&["a", "a/b"], false),
            (&["a/b", "a"], false),
            (&["a/b", "A/c"], false),
            (&["a/", "a/"], false),
            (&["a/b", "a/", "a/"], false),
            (&["a/", "A"], false),
            (&["x/a/b", "x/A"], false),
            (&["straße", "STRASSE"], false),
            (&["straße", "straẞe"], false),
            (&["ſ", "s"], false),
            (&["\u{e9}", "e\u{301}"], false),
            (&["\u{c9}/x", "e\u{301}/y"], false),
            (&["\u{212a}", "k"], false),
            (&["σ", "ς"], false),
            (&["ﬁle", "FILE"], false),
            (&["a\u{200d}b", "ab"], false),
            (&["x/a", "y/a"], true),
            (&["e", "é"], true),
        ] {
            let mut seen = PathSet::default();
            let added = names
                .iter()
                .try_for_each(|name| seen.insert(name.trim_end_matches('/'), name.ends_with('/')));
            assert_eq!(added.is_ok(), compatible, "{names:?}");
        }
    }

    #[test]
    fn only_a_lone_directory_around_everything_is_a_wrapper() {
        for (paths, expected) in [
            (&["w/SKILL.md", "w/a/b"][..], Some("w")),
            (&["w/a", "w/skill.MD"], Some("w")),
            (&["w/SKILL.md", "other"], None),
            (&["w/SKILL.md", "v/a"], None),
            (&["w/SKILL.md", "wide/a"], None),
            (&["w/v/SKILL.md"], None),
            (&["SKILL.md"], None),
            (&[], None),
        ] {
            assert_eq!(find_wrapper(paths.iter().copied()), expected, "{paths:?}");
        }
    }

    #[test]
    fn junk_is_told_from_content() {
        for junk in
            ["__MACOSX/a/._b", "__MACOSX", ".DS_Store", "a/.DS_Store", "a/Thumbs.db", "thumbs.db"]
        {
            assert!(is_junk(junk), "{junk}");
        }
        for content in ["a/__MACOSX/b", "DS_Store", ".DS_Store/x", "thumbs.db.txt"] {
            assert!(!is_junk(content), "{content}");
        }
    }
}
