//! The version of gVisor, which engines do not report.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// The version that the engine's gVisor program prints. `None` when the program is not on this
/// machine, as with a remote engine or inside a container.
pub(super) async fn version(program: &str) -> Option<String> {
    let command =
        Command::new(program).arg("--version").stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(VERSION_TIMEOUT, command).await.ok()?.ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// Parses the line `runsc version release-20241028.0`. The result appears in a terminal, so only
/// plain characters are accepted.
fn parse_version(output: &str) -> Option<String> {
    let version = output.lines().find_map(|line| line.strip_prefix("runsc version "))?.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '~' | '+');
    (version.len() <= 64 && version.chars().all(plain)).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_line_is_parsed() {
        assert_eq!(
            parse_version("runsc version 0.0~20221219.0\nspec: 1.0.2-dev\n").as_deref(),
            Some("0.0~20221219.0")
        );
        for other in ["", "runc version 1.1.5\n", "runsc version \x1b[2J\n"] {
            assert_eq!(parse_version(other), None, "{other:?}");
        }
    }

    #[tokio::test]
    async fn a_missing_program_has_no_version() {
        assert_eq!(version("/no/such/runsc").await, None);
    }
}
