//! URIs of resources, formatted and parsed: `skill://<skill>/<path>` and `execution://<id>/<name>`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const SKILL_SCHEME: &str = "skill://";
const EXECUTION_SCHEME: &str = "execution://";
/// What is percent-encoded: everything but unreserved characters and the slash.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// What a URI names. Whether it exists is for the provider to decide.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResourceName {
    SkillFile { skill: String, path: String },
    Artifact { execution: String, name: String },
}

pub(crate) fn skill_file_uri(skill: &str, path: &str) -> String {
    format_uri(SKILL_SCHEME, skill, path)
}

pub(crate) fn artifact_uri(execution: &str, name: &str) -> String {
    format_uri(EXECUTION_SCHEME, execution, name)
}

pub(crate) fn parse_uri(uri: &str) -> Option<ResourceName> {
    if let Some(rest) = uri.strip_prefix(SKILL_SCHEME) {
        return parse_parts(rest).map(|(skill, path)| ResourceName::SkillFile { skill, path });
    }
    parse_parts(uri.strip_prefix(EXECUTION_SCHEME)?)
        .map(|(execution, name)| ResourceName::Artifact { execution, name })
}

fn format_uri(scheme: &str, owner: &str, path: &str) -> String {
    format!(
        "{scheme}{}/{}",
        utf8_percent_encode(owner, ENCODED),
        utf8_percent_encode(path, ENCODED)
    )
}

fn parse_parts(rest: &str) -> Option<(String, String)> {
    let (owner, path) = rest.split_once('/')?;
    let decoded = |text| percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned());
    let (owner, path) = (decoded(owner)?, decoded(path)?);
    (!owner.is_empty() && !path.is_empty()).then_some((owner, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_survives_formatting_and_parsing() {
        for (owner, path) in
            [("a", "SKILL.md"), ("a.b-c", "docs/with space/ü#?%.md"), ("a", "../../etc/passwd")]
        {
            let (skill, path) = (owner.to_owned(), path.to_owned());
            let uri = skill_file_uri(&skill, &path);
            assert_eq!(
                parse_uri(&uri),
                Some(ResourceName::SkillFile { skill, path: path.clone() }),
                "{uri}"
            );
            let (execution, uri) = (owner.to_owned(), artifact_uri(owner, &path));
            assert_eq!(
                parse_uri(&uri),
                Some(ResourceName::Artifact { execution, name: path }),
                "{uri}"
            );
        }
        assert_eq!(skill_file_uri("a", "b c/d#.md"), "skill://a/b%20c/d%23.md");
    }

    #[test]
    fn rejects_uris_that_name_nothing() {
        for wrong in [
            "", "skill://", "skill://a", "skill://a/", "skill:///x", "file:///etc/passwd",
            "skill://a/%ff", "execution://",
        ] {
            assert_eq!(parse_uri(wrong), None, "{wrong}");
        }
    }
}
