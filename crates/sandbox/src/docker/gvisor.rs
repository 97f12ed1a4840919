//! gVisor's own word about its version, which no engine passes on.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

const PATIENCE: Duration = Duration::from_secs(5);

/// What the engine's program for gVisor says when it is asked here. Nothing when it is not on this
/// machine, as with an engine elsewhere or from inside a container.
pub async fn version(program: &str) -> Option<String> {
    let asking =
        Command::new(program).arg("--version").stdin(Stdio::null()).kill_on_drop(true).output();
    let said = tokio::time::timeout(PATIENCE, asking).await.ok()?.ok()?;
    read(&String::from_utf8_lossy(&said.stdout))
}

/// From the line `runsc version release-20241028.0`.
fn read(said: &str) -> Option<String> {
    let version = said.lines().find_map(|line| line.strip_prefix("runsc version "))?.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '~' | '+');
    (version.len() <= 64 && version.chars().all(plain)).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_is_taken_for_one() {
        assert_eq!(
            read("runsc version 0.0~20221219.0\nspec: 1.0.2-dev\n").as_deref(),
            Some("0.0~20221219.0")
        );
        for other in ["", "runc version 1.1.5\n", "runsc version \x1b[2J\n"] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_here_says_nothing() {
        assert_eq!(version("/no/such/runsc").await, None);
    }
}
