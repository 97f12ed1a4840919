//! The names that collected files may have. The guest skips a name that the host would reject.

/// The longest path of an artifact, in bytes.
pub const MAX_PATH: usize = 1024;

/// The maximum depth of a directory below the files directory that is walked.
pub const MAX_DEPTH: usize = 32;

/// Whether a path component means the same to every file system, archive and URL.
pub fn is_plain_component(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name != "."
        && name != ".."
        && !name.chars().any(|c| c == '/' || c == '\\' || c.is_control())
}

/// Whether a relative path consists of plain components, within the limits on length and depth.
pub fn is_plain_path(path: &str) -> bool {
    path.len() <= MAX_PATH
        && path.split('/').count() <= MAX_DEPTH + 1
        && path.split('/').all(is_plain_component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_are_plain() {
        for path in ["a", "a.txt", "report/2026/ä ö.csv", "...", "-rf", ".hidden", "a b"] {
            assert!(is_plain_path(path), "{path:?}");
        }
    }

    #[test]
    fn ambiguous_paths_are_not_plain() {
        for path in [
            "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/.", "a\\b", "a\nb", "a\0",
            "\u{85}",
        ] {
            assert!(!is_plain_path(path), "{path:?}");
        }
    }

    #[test]
    fn length_and_depth_are_bounded() {
        assert!(is_plain_path(&"x".repeat(255)));
        assert!(!is_plain_path(&"x".repeat(256)));
        assert!(is_plain_path(&vec!["d"; MAX_DEPTH + 1].join("/")));
        assert!(!is_plain_path(&vec!["d"; MAX_DEPTH + 2].join("/")));
        assert!(!is_plain_path(&vec!["x".repeat(250); 5].join("/")));
    }
}
