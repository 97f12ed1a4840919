//! The names of resources: `skill://<skill>/<path>` and `execution://<id>/<name>`, both ways.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const SKILL: &str = "skill://";
const EXECUTION: &str = "execution://";
const KEPT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// What a URI names; whether it exists is another question.
#[derive(Debug, PartialEq, Eq)]
pub enum ResourceName {
    SkillFile { skill: String, path: String },
    Artifact { execution: String, name: String },
}

pub fn of_skill_file(skill: &str, path: &str) -> String {
    spelled(SKILL, skill, path)
}

pub fn of_artifact(execution: &str, name: &str) -> String {
    spelled(EXECUTION, execution, name)
}

pub fn parse(uri: &str) -> Option<ResourceName> {
    if let Some(rest) = uri.strip_prefix(SKILL) {
        return parts(rest).map(|(skill, path)| ResourceName::SkillFile { skill, path });
    }
    parts(uri.strip_prefix(EXECUTION)?)
        .map(|(execution, name)| ResourceName::Artifact { execution, name })
}

fn spelled(scheme: &str, owner: &str, path: &str) -> String {
    format!("{scheme}{}/{}", utf8_percent_encode(owner, KEPT), utf8_percent_encode(path, KEPT))
}

fn parts(rest: &str) -> Option<(String, String)> {
    let (owner, path) = rest.split_once('/')?;
    let decoded = |text| percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned());
    let (owner, path) = (decoded(owner)?, decoded(path)?);
    (!owner.is_empty() && !path.is_empty()).then_some((owner, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_anything_in_them_come_back() {
        for (owner, path) in
            [("a", "SKILL.md"), ("a.b-c", "docs/with space/ü#?%.md"), ("a", "../../etc/passwd")]
        {
            let (skill, path) = (owner.to_owned(), path.to_owned());
            let uri = of_skill_file(&skill, &path);
            assert_eq!(
                parse(&uri),
                Some(ResourceName::SkillFile { skill, path: path.clone() }),
                "{uri}"
            );
            let (execution, uri) = (owner.to_owned(), of_artifact(owner, &path));
            assert_eq!(
                parse(&uri),
                Some(ResourceName::Artifact { execution, name: path }),
                "{uri}"
            );
        }
        assert_eq!(of_skill_file("a", "b c/d#.md"), "skill://a/b%20c/d%23.md");
    }

    #[test]
    fn what_names_nothing_is_not_read() {
        for wrong in [
            "", "skill://", "skill://a", "skill://a/", "skill:///x", "file:///etc/passwd",
            "skill://a/%ff", "execution://",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
