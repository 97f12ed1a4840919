//! What a person reads when something went wrong: what happened, and what to do.

use std::io::ErrorKind;
use std::process::ExitCode;

use client::ClientError;

use crate::output::note;

/// A call that failed, or wrong usage.
const FAILED_CALL: u8 = 2;

/// Prints the error on standard error and gives the exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if reader_went_away(error) {
        return ExitCode::SUCCESS;
    }
    note(&format!("error: {}", told(error)));
    if let Some(hint) = error.downcast_ref::<ClientError>().and_then(hint) {
        note(&format!("hint: {hint}"));
    }
    ExitCode::from(FAILED_CALL)
}

/// The error with its causes, each said once: some messages name theirs themselves.
fn told(error: &anyhow::Error) -> String {
    let causes = error.chain().map(ToString::to_string);
    let told = causes.reduce(
        |told, cause| if told.contains(&cause) { told } else { format!("{told}: {cause}") },
    );
    told.unwrap_or_default()
}

/// A closed standard output is the reader's choice, not our failure.
fn reader_went_away(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// What to do about a refusal, beyond what the server itself says.
fn hint(error: &ClientError) -> Option<&'static str> {
    let ClientError::Api { status, slug, .. } = error else { return None };
    match (*status, slug.as_str()) {
        (401, _) => Some(
            "give a valid key with -k or SKILLBOX_API_KEY. The first key of a server is printed when it first starts \
             and kept in the file `key` of its data directory (`skillbox config` says where)",
        ),
        (403, _) => {
            Some("use a key that has the needed scope, and leave -t out unless it is a service key")
        }
        (404, "not_found") => {
            Some("`skillbox skill list` and `skillbox exec list` show what this key can see")
        }
        (409, "version_exists") => {
            Some("raise `version` in SKILL.md, or delete the old version first")
        }
        (429 | 503, _) => Some("the server is busy or stopping; try again in a moment"),
        (500.., _) => Some("the server's log has the cause under the request id"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, slug: &str) -> ClientError {
        ClientError::Api { status, slug: slug.into(), message: "No.".into(), request_id: None }
    }

    #[test]
    fn a_missing_key_says_where_keys_come_from() {
        let hint = hint(&refusal(401, "unauthorized")).expect("a hint");
        assert!(hint.contains("-k") && hint.contains("SKILLBOX_API_KEY"), "{hint}");
    }

    #[test]
    fn an_invalid_skill_needs_no_hint() {
        assert_eq!(hint(&refusal(400, "invalid_skill")), None);
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = || anyhow::anyhow!("no such file");
        assert_eq!(told(&cause().context("cannot start")), "cannot start: no such file");
        assert_eq!(
            told(&cause().context("cannot use /x: no such file. Set X.")),
            "cannot use /x: no such file. Set X."
        );
    }

    #[test]
    fn a_closed_pipe_is_found_under_context() {
        let error =
            anyhow::Error::new(std::io::Error::from(ErrorKind::BrokenPipe)).context("printing");
        assert!(reader_went_away(&error));
        assert!(!reader_went_away(&anyhow::anyhow!("broken pipe")));
    }
}
