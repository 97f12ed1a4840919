//! Whether a request is one that can be stored and run, whatever the skill. Pure.

use serde_json::value::RawValue;

use crate::json::compact;
use crate::{Request, RunError};

/// The kernel takes no argument or variable above 128 KiB, and 2 MiB of them in all.
const MAX_ARG_BYTES: usize = 96 << 10;
const MAX_ARGS_BYTES: usize = 1 << 20;
const MAX_NAME_BYTES: usize = 128;

/// The request with its input made compact, or the reason why it is invalid.
pub(crate) fn validate(mut request: Request) -> Result<Request, RunError> {
    let invalid = |sentence: String| Err(RunError::InvalidRequest(sentence));
    if request.skill.is_empty() {
        return invalid("skill must not be empty".to_owned());
    }
    if !could_exist(&request.skill) {
        return Err(RunError::UnknownSkill);
    }
    if !could_exist(&request.version) {
        return invalid("version must be latest or look like 1.2.3".to_owned());
    }
    if request.timeout_ms == Some(0) {
        return invalid("timeout must be longer than nothing".to_owned());
    }
    check_args_and_env(&request)?;
    if let Some(input) = request.input.take() {
        let compact = compact(input.get().as_bytes());
        let compact =
            compact.map_err(|error| RunError::InvalidRequest(format!("input {error}")))?;
        let compact = RawValue::from_string(compact).expect("compact JSON is JSON");
        request.input = Some(compact);
    }
    Ok(request)
}

fn check_args_and_env(request: &Request) -> Result<(), RunError> {
    let invalid = |sentence: String| Err(RunError::InvalidRequest(sentence));
    let is_no_name = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
    if let Some(name) = request.env.keys().find(is_no_name) {
        return invalid(format!("env has {name:?}, which is not a name"));
    }
    let texts = || request.args.iter().chain(request.env.keys()).chain(request.env.values());
    if texts().any(|text| text.contains('\0') || text.len() > MAX_ARG_BYTES) {
        return invalid(format!(
            "args and env must have no NUL and at most {MAX_ARG_BYTES} bytes each"
        ));
    }
    if texts().map(String::len).sum::<usize>() > MAX_ARGS_BYTES {
        return invalid(format!("args and env must have at most {MAX_ARGS_BYTES} bytes together"));
    }
    Ok(())
}

/// Whether a skill or a version can have this name. Any other name is not worth a query.
fn could_exist(name: &str) -> bool {
    let allowed =
        |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-' | '+');
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Option<Box<RawValue>> {
        Some(RawValue::from_string(json.to_owned()).expect("JSON"))
    }

    #[test]
    fn a_valid_request_passes_with_its_input_compact() {
        let mut request = Request::new("word-counter");
        request.input = raw("{ \"b\" : 1.0 }");
        let valid = validate(request).expect("valid");
        assert_eq!(valid.input.as_deref().map(RawValue::get), Some("{\"b\":1.0}"));
    }

    #[test]
    fn malformed_requests_are_rejected() {
        let malformed: [fn(&mut Request); 9] = [
            |r| r.skill.clear(),
            |r| r.version = "1.0\0".to_owned(),
            |r| r.timeout_ms = Some(0),
            |r| drop(r.env.insert(String::new(), "x".to_owned())),
            |r| drop(r.env.insert("A=B".to_owned(), "x".to_owned())),
            |r| drop(r.env.insert("A".to_owned(), "x\0".to_owned())),
            |r| r.args.push("y".repeat(200_000)),
            |r| r.args.extend((0..20).map(|_| "y".repeat(90_000))),
            |r| r.input = raw(&format!("{}{}", "[".repeat(1000), "]".repeat(1000))),
        ];
        for (index, break_it) in malformed.into_iter().enumerate() {
            let mut request = Request::new("ok");
            break_it(&mut request);
            assert!(matches!(validate(request), Err(RunError::InvalidRequest(_))), "case {index}");
        }
        assert!(matches!(validate(Request::new("../etc")), Err(RunError::UnknownSkill)));
    }

    #[test]
    fn an_explicit_null_is_not_the_same_as_no_input() {
        let has_input =
            |json: &str| serde_json::from_str::<Request>(json).expect("request").input.is_some();
        assert!(has_input(r#"{"skill":"a","input":null}"#));
        assert!(!has_input(r#"{"skill":"a"}"#));
    }
}
