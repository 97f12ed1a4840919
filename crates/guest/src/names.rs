//! Which names a file that leaves a sandbox may have; the guest skips what the host would refuse.

/// The longest path of an artifact, in bytes.
pub const MAX_PATH: usize = 1024;

/// The deepest directory below the files directory that is looked into.
pub const MAX_DEPTH: usize = 32;

/// One component of an artifact's path: text that means the same to every file system, archive and
/// URL.
pub fn plain_component(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name != "."
        && name != ".."
        && !name.chars().any(|c| c == '/' || c == '\\' || c.is_control())
}

/// A whole relative path of plain components.
pub fn plain_path(path: &str) -> bool {
    path.len() <= MAX_PATH
        && path.split('/').count() <= MAX_DEPTH + 1
        && path.split('/').all(plain_component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_are_plain() {
        for path in ["a", "a.txt", "report/2026/ä ö.csv", "...", "-rf", ".hidden", "a b"] {
            assert!(plain_path(path), "{path:?}");
        }
    }

    #[test]
    fn paths_that_could_mean_something_else_are_not() {
        for path in [
            "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/.", "a\\b", "a\nb", "a\0",
            "\u{85}",
        ] {
            assert!(!plain_path(path), "{path:?}");
        }
    }

    #[test]
    fn length_and_depth_are_bounded() {
        assert!(plain_path(&"x".repeat(255)));
        assert!(!plain_path(&"x".repeat(256)));
        assert!(plain_path(&vec!["d"; MAX_DEPTH + 1].join("/")));
        assert!(!plain_path(&vec!["d"; MAX_DEPTH + 2].join("/")));
        assert!(!plain_path(&vec!["x".repeat(250); 5].join("/")));
    }
}
