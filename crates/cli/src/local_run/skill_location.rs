//! Decides whether the argument of `run` is a directory on this machine or a skill on a server.

use std::path::{Path, PathBuf};

pub(crate) enum SkillLocation {
    Directory(PathBuf),
    Server,
}

impl SkillLocation {
    /// A slash, `.` and `..` always mean a directory. So does the name of a directory that holds a
    /// skill, unless a server is configured: a script that runs `skillbox run NAME` against a
    /// server must not change its meaning because of a directory with that name beside it.
    pub(crate) fn parse(text: &str, server_configured: bool) -> SkillLocation {
        let path = Path::new(text);
        let is_path = text.contains('/') || matches!(text, "." | "..");
        if is_path || (!server_configured && is_skill(path)) {
            SkillLocation::Directory(path.to_owned())
        } else {
            SkillLocation::Server
        }
    }
}

/// Whether a directory is a skill's: it has a `SKILL.md`, in any letter case, or the manifest of
/// another dialect.
fn is_skill(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    skill::is_skill(names.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_a_slash_or_are_dots() {
        for path in [".", "..", "./x", "x/", "/x", "a/b", "https://example.com/x.zip"] {
            let location = SkillLocation::parse(path, true);
            assert!(matches!(location, SkillLocation::Directory(_)), "{path}");
        }
        for name in ["word-counter", "a.b", "word-counter@1.0.0", "src"] {
            let location = SkillLocation::parse(name, false);
            assert!(matches!(location, SkillLocation::Server), "{name}");
        }
    }
}
