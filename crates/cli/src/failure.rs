//! Prints errors for the user: the problem, and advice on how to fix it.

use std::io::ErrorKind;
use std::process::ExitCode;

use client::ClientError;

use crate::output::note;

/// Exit code of a failed call and of wrong usage.
const EXIT_FAILED_CALL: u8 = 2;

/// Prints the error on standard error and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_closed_stdout(error) {
        return ExitCode::SUCCESS;
    }
    note(&format!("error: {}", with_causes(error)));
    if let Some(hint) = error.downcast_ref::<ClientError>().and_then(hint) {
        note(&format!("hint: {hint}"));
    }
    ExitCode::from(EXIT_FAILED_CALL)
}

/// The error with its causes. A cause is left out if the message already contains it.
fn with_causes(error: &anyhow::Error) -> String {
    let causes = error.chain().map(ToString::to_string);
    let message = causes.reduce(|message, cause| {
        if message.contains(&cause) { message } else { format!("{message}: {cause}") }
    });
    message.unwrap_or_default()
}

/// Whether the reader of our standard output closed it, as `head` does. That is not a failure.
fn is_closed_stdout(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Advice on an error of the server, beyond its own message.
fn hint(error: &ClientError) -> Option<&'static str> {
    let ClientError::Api { status, slug, .. } = error else { return None };
    match (*status, slug.as_str()) {
        (401, _) => Some(
            "give a valid key with -k or SKILLBOX_API_KEY. A server prints its first key when it first starts, \
             and stores it in the file `key` of its data directory (`skillbox config` prints the path)",
        ),
        (403, _) => {
            Some("use a key with the required scope, and omit -t unless it is a service key")
        }
        (404, "not_found") => {
            Some("`skillbox skill list` and `skillbox exec list` show what this key can access")
        }
        (409, "version_exists") => {
            Some("raise `version` in SKILL.md, or delete the old version first")
        }
        (429 | 503, _) => Some("the server is busy or shutting down; retry in a moment"),
        (500.., _) => Some("find the cause in the server's log by the request id"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api_error(status: u16, slug: &str) -> ClientError {
        ClientError::Api { status, slug: slug.into(), message: "No.".into(), request_id: None }
    }

    #[test]
    fn a_missing_key_gets_advice_on_keys() {
        let hint = hint(&api_error(401, "unauthorized")).expect("a hint");
        assert!(hint.contains("-k") && hint.contains("SKILLBOX_API_KEY"), "{hint}");
    }

    #[test]
    fn an_invalid_skill_gets_no_hint() {
        assert_eq!(hint(&api_error(400, "invalid_skill")), None);
    }

    #[test]
    fn a_cause_is_printed_once() {
        let cause = || anyhow::anyhow!("no such file");
        assert_eq!(with_causes(&cause().context("cannot start")), "cannot start: no such file");
        assert_eq!(
            with_causes(&cause().context("cannot use /x: no such file. Set X.")),
            "cannot use /x: no such file. Set X."
        );
    }

    #[test]
    fn a_closed_pipe_is_recognized_below_a_context() {
        let error =
            anyhow::Error::new(std::io::Error::from(ErrorKind::BrokenPipe)).context("printing");
        assert!(is_closed_stdout(&error));
        assert!(!is_closed_stdout(&anyhow::anyhow!("broken pipe")));
    }
}
