//! The names inside a skill: which are safe, which collide, which are junk, which are a mere wrapper.
//!
//! A path that passed here is relative, has plain components only, and means the same file on every file system.

use std::collections::HashMap;

use crate::{Hazard, Limits, SkillError};

/// A zip header counts the bytes of a name in sixteen bits.
const LONGEST_IN_ZIP: usize = 65_535;

/// Checks one path and gives back its plain form, without a leading `./` and without the slash that marks a directory.
///
/// The root itself (`./`) becomes the empty path.
pub(crate) fn check<'a>(name: &'a str, limits: &Limits) -> Result<&'a str, SkillError> {
    let path = name.strip_prefix("./").unwrap_or(name);
    if path.is_empty() && !name.is_empty() {
        return Ok(path);
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    let plain = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
    let safe = path.len() <= limits.path_bytes.min(LONGEST_IN_ZIP)
        && !drive
        && !path.contains(|c: char| c == '\\' || c.is_control())
        && path.split('/').all(plain)
        && path.split('/').count() <= limits.depth.saturating_add(1);
    if safe { Ok(path) } else { Err(Hazard::UnsafePath.of(name)) }
}

/// Files that desktop systems leave behind and no author meant to ship.
pub(crate) fn is_junk(path: &str) -> bool {
    path.split('/').next() == Some("__MACOSX")
        || path.rsplit('/').next().is_some_and(|name| name == ".DS_Store" || name.eq_ignore_ascii_case("thumbs.db"))
}

/// The names seen so far, as a file system that ignores case would see them.
#[derive(Default)]
pub(crate) struct Names {
    seen: HashMap<String, Seen>,
}

struct Seen {
    spelling: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    File,
    /// A directory with an entry of its own, of which there may be one.
    Directory,
    /// A directory that only stands in the paths of other entries.
    Implied,
}

impl Names {
    /// Adds a checked path; fails when another path could not exist beside it.
    pub(crate) fn add(&mut self, path: &str, directory: bool) -> Result<(), SkillError> {
        for (slash, _) in path.match_indices('/') {
            self.place(&path[..slash], Kind::Implied, path)?;
        }
        let kind = if directory { Kind::Directory } else { Kind::File };
        self.place(path, kind, path)
    }

    fn place(&mut self, path: &str, kind: Kind, entry: &str) -> Result<(), SkillError> {
        let Some(seen) = self.seen.get_mut(&folded(path)) else {
            let spelling = path.to_owned();
            self.seen.insert(folded(path), Seen { spelling, kind });
            return Ok(());
        };
        let compatible = match (seen.kind, kind) {
            (Kind::Implied | Kind::Directory, Kind::Implied) => true,
            (Kind::Implied, Kind::Directory) => {
                seen.kind = Kind::Directory;
                true
            }
            _ => false,
        };
        if compatible && seen.spelling == path {
            return Ok(());
        }
        Err(Hazard::Duplicate.of(entry))
    }
}

fn folded(path: &str) -> String {
    path.to_lowercase()
}

/// The single top directory that holds everything, when `SKILL.md` lies in it and not at the root.
pub(crate) fn wrapper<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let (top, _) = paths.clone().next()?.split_once('/')?;
    let inside = |path: &'a str| path.strip_prefix(top)?.strip_prefix('/');
    let mut has_skill_file = false;
    for path in paths {
        has_skill_file |= is_skill_file(inside(path)?);
    }
    has_skill_file.then_some(top)
}

/// Whether this is the skill's own description, whichever way it is capitalised.
pub(crate) fn is_skill_file(path: &str) -> bool {
    path.eq_ignore_ascii_case("SKILL.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_paths_pass_and_are_made_plain() {
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
        ] {
            assert_eq!(check(name, &Limits::default()).ok(), Some(plain), "{name}");
        }
    }

    #[test]
    fn unsafe_paths_are_refused_in_every_spelling() {
        let long = "x".repeat(256);
        let longer = "x/".repeat(300);
        let deep = "d/".repeat(33) + "f";
        for name in [
            "", "/", "/etc/passwd", "//x", "..", "../x", "a/../../x", "a/..", "./../x", "a/./b", ".", "a//b", "a//",
            "..\\x", "a\\b", "\\\\host\\x", "C:\\x", "C:/x", "c:x", "a\0b", "a\nb", "a\u{7f}", "a\u{85}b", ".//x",
            &long, &longer, &deep,
        ] {
            let error = check(name, &Limits::default()).expect_err(name);
            assert_eq!(error.slug(), "unsafe_path", "{name}");
        }
    }

    #[test]
    fn names_that_cannot_live_together_are_refused() {
        for (names, together) in [
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
        ] {
            let mut seen = Names::default();
            let added = names.iter().try_for_each(|name| seen.add(name.trim_end_matches('/'), name.ends_with('/')));
            assert_eq!(added.is_ok(), together, "{names:?}");
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
            assert_eq!(wrapper(paths.iter().copied()), expected, "{paths:?}");
        }
    }

    #[test]
    fn junk_is_told_from_content() {
        for junk in ["__MACOSX/a/._b", "__MACOSX", ".DS_Store", "a/.DS_Store", "a/Thumbs.db", "thumbs.db"] {
            assert!(is_junk(junk), "{junk}");
        }
        for content in ["a/__MACOSX/b", "DS_Store", ".DS_Store/x", "thumbs.db.txt"] {
            assert!(!is_junk(content), "{content}");
        }
    }
}
