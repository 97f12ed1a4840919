//! Whether what stands after `run` is a place on this machine or a skill's name on a server.

use std::path::{Path, PathBuf};

pub enum Target {
    Here(PathBuf),
    OnServer,
}

/// A slash, `.` and `..` mean a place. So does the name of a directory that holds a skill, unless
/// somebody named a server: what a script has always run there must not change because of a
/// directory that it happens to stand beside.
pub fn target(text: &str, names_a_server: bool) -> Target {
    let path = Path::new(text);
    let place = text.contains('/') || matches!(text, "." | "..");
    if place || (!names_a_server && is_skill(path)) {
        Target::Here(path.to_owned())
    } else {
        Target::OnServer
    }
}

/// Whether a directory is a skill's: it has a `SKILL.md`, however that is spelled, or the manifest
/// of another dialect.
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
    fn places_have_a_slash_or_are_dots() {
        for place in [".", "..", "./x", "x/", "/x", "a/b", "https://example.com/x.zip"] {
            assert!(matches!(target(place, true), Target::Here(_)), "{place}");
        }
        for name in ["word-counter", "a.b", "word-counter@1.0.0", "src"] {
            assert!(matches!(target(name, false), Target::OnServer), "{name}");
        }
    }
}
