//! The keys of blobs.
//!
//! A key is a path of segments, the tenant first. Each segment is encoded from a name that may be
//! hostile (a skill chooses the paths of its artifacts): letters, digits, `_`, `-` and inner dots
//! stay, all other bytes become `%XX`. A segment therefore contains no `/`, is never `.` or `..`,
//! and never starts with a dot. A segment that is too long for a file system is truncated and ends
//! in `~` and the hash of the whole name.

use std::fmt::{self, Display};

use data_encoding::HEXLOWER;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::BlobError;

/// File systems allow 255 bytes in a name.
const MAX_SEGMENT_BYTES: usize = 200;

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// The key of one blob.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobKey(String);

/// A common prefix of keys; it ends at the boundary of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPrefix(String);

impl BlobKey {
    /// A skill's canonical archive.
    pub fn skill(tenant: &str, digest: &str) -> BlobKey {
        BlobKey(join(&[tenant, "skills", digest]))
    }

    /// An artifact of an execution. `path` becomes one segment, also with slashes in it, so that
    /// the artifacts `a` and `a/b` can both exist.
    pub fn artifact(tenant: &str, execution_id: impl Display, path: &str) -> BlobKey {
        let id = execution_id.to_string();
        BlobKey(join(&[tenant, "executions", &id, "files", path]))
    }

    /// The archive of all artifacts of an execution.
    pub fn archive(tenant: &str, execution_id: impl Display) -> BlobKey {
        let id = execution_id.to_string();
        BlobKey(join(&[tenant, "executions", &id, "archive.tar.gz"]))
    }

    /// An uploaded file.
    pub fn file(tenant: &str, file_id: impl Display) -> BlobKey {
        BlobKey(join(&[tenant, "files", &file_id.to_string()]))
    }

    /// Parses a key that was stored with `as_str`.
    pub fn parse(text: &str) -> Result<BlobKey, BlobError> {
        let well_formed = text.split('/').count() >= 3 && text.split('/').all(is_segment);
        if well_formed { Ok(BlobKey(text.to_owned())) } else { Err(BlobError::Key) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this blob belongs to the tenant. Check this before serving the blob of a stored key.
    pub fn belongs_to(&self, tenant: &str) -> bool {
        self.0.split('/').next() == Some(encode(tenant).as_str())
    }

    /// The second segment: `skills`, `executions` or `files`.
    pub(crate) fn category(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or_default()
    }
}

impl BlobPrefix {
    /// All blobs of a tenant.
    pub fn tenant(tenant: &str) -> BlobPrefix {
        BlobPrefix(join(&[tenant]))
    }

    /// All blobs of an execution.
    pub fn execution(tenant: &str, execution_id: impl Display) -> BlobPrefix {
        let id = execution_id.to_string();
        BlobPrefix(join(&[tenant, "executions", &id]))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The category of all blobs below this prefix; `None` when there may be several.
    pub(crate) fn category(&self) -> Option<&str> {
        self.0.split('/').nth(1)
    }
}

impl Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn join(names: &[&str]) -> String {
    let segments: Vec<String> = names.iter().map(|name| encode(name)).collect();
    segments.join("/")
}

fn encode(name: &str) -> String {
    let mut segment = utf8_percent_encode(name, ENCODED).to_string();
    if segment.starts_with('.') {
        segment.replace_range(..1, "%2E");
    }
    if segment.is_empty() {
        // An empty name is allowed, an empty segment is not; no other name is encoded as `%`.
        segment.push('%');
    }
    if segment.len() > MAX_SEGMENT_BYTES {
        let hash = HEXLOWER.encode(&Sha256::digest(name));
        segment.truncate(MAX_SEGMENT_BYTES - 1 - hash.len());
        segment.push('~');
        segment.push_str(&hash);
    }
    segment
}

/// Whether a text is safe as a segment. Accepts every result of `encode`.
fn is_segment(segment: &str) -> bool {
    (1..=MAX_SEGMENT_BYTES).contains(&segment.len())
        && !segment.starts_with('.')
        && segment
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'%' | b'~'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_names_stay_readable() {
        assert_eq!(BlobKey::skill("acme", "sha256:ab").as_str(), "acme/skills/sha256%3Aab");
        assert_eq!(
            BlobKey::artifact("acme", 7, "plots/a b.png").as_str(),
            "acme/executions/7/files/plots%2Fa%20b.png"
        );
        assert_eq!(BlobKey::archive("acme", 7).as_str(), "acme/executions/7/archive.tar.gz");
        assert_eq!(BlobKey::file("acme", 7).as_str(), "acme/files/7");
    }

    #[test]
    fn hostile_names_stay_in_their_prefix() {
        let long = "../".repeat(2000);
        for name in [
            "..",
            ".",
            "",
            "/",
            "/etc/passwd",
            "../../x",
            "a/../../..",
            ".tmp",
            "a\0b",
            "%2e%2e",
            "~",
            "..\\x",
            long.as_str(),
        ] {
            let key = BlobKey::artifact("acme", 7, name);
            let prefix = format!("{}/files/", BlobPrefix::execution("acme", 7).as_str());
            let segment = key.as_str().strip_prefix(&prefix).expect("the prefix is kept");
            assert!(is_segment(segment), "{name:?} became {segment:?}");
        }
    }

    #[test]
    fn long_names_with_a_common_prefix_have_different_keys() {
        let name = "x".repeat(5000);
        let one = BlobKey::artifact("acme", 7, &format!("{name}1"));
        let two = BlobKey::artifact("acme", 7, &format!("{name}2"));
        assert_ne!(one, two);
        assert!(BlobKey::parse(one.as_str()).is_ok());
    }

    #[test]
    fn name_that_looks_truncated_has_its_own_key() {
        let long = "x".repeat(300);
        let key = BlobKey::artifact("acme", 7, &long);
        let cut = key.as_str().rsplit('/').next().expect("a last segment");
        assert_ne!(BlobKey::artifact("acme", 7, cut), key);
    }

    #[test]
    fn tenant_is_compared_by_the_whole_segment() {
        let key = BlobKey::skill("acme", "d");
        assert!(key.belongs_to("acme"));
        for other in ["", "acm", "acme2", "acme/skills", "Acme"] {
            assert!(!key.belongs_to(other), "{other:?}");
        }
    }

    #[test]
    fn invalid_keys_are_rejected() {
        for text in [
            "", "a", "a/b", "/a/b/c", "a//b/c", "a/../b/c", "a/b/.tmp", "a/b/c d", "a/b/c/",
            "a/b/\0",
        ] {
            assert!(BlobKey::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_key_can_be_parsed_again(tenant in any::<String>(), path in any::<String>()) {
            let key = BlobKey::artifact(&tenant, 7, &path);
            prop_assert_eq!(BlobKey::parse(key.as_str()).expect("our own key"), key.clone());
            prop_assert!(key.belongs_to(&tenant));
            prop_assert_eq!(key.as_str().split('/').count(), 5);
        }

        #[test]
        fn different_names_have_different_keys(one in ".{0,300}", two in ".{0,300}") {
            prop_assume!(one != two);
            prop_assert_ne!(BlobKey::artifact("t", 7, &one), BlobKey::artifact("t", 7, &two));
            prop_assert_ne!(BlobKey::artifact(&one, 7, "p"), BlobKey::artifact(&two, 7, "p"));
        }
    }
}
