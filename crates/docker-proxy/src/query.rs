//! Query parameters: each one known, of its own type and at most once, and encoded again for the
//! engine.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::filters;
use crate::names;
use crate::request_error::{RequestResult, forbidden, malformed};

/// A parameter that a route accepts.
pub(crate) type QueryParam = (&'static str, ParamRule);

/// The values that a parameter may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamRule {
    Flag,
    /// A flag that may only be off.
    Off,
    /// A flag that must be present and off, because the engine's default is on.
    RequiredOff,
    Empty,
    Number,
    /// A name for a container of ours.
    Name,
    OneOf(&'static [&'static str]),
    /// The filters of a list, see [`filters`].
    ListFilters,
}

/// Checked parameters, in the order of the request.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RequestQuery(Vec<(&'static str, String)>);

const MAX_QUERY_BYTES: usize = 4096;

impl RequestQuery {
    pub(crate) fn parse(text: &str, allowed: &'static [QueryParam]) -> RequestResult<RequestQuery> {
        if text.len() > MAX_QUERY_BYTES {
            return malformed("its query is too long");
        }
        let mut query = RequestQuery::default();
        for pair in text.split('&').filter(|_| !text.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some((name, rule)) = allowed.iter().find(|(name, _)| *name == key) else {
                return forbidden(format!("the parameter {key:?}"));
            };
            if query.get(name).is_some() {
                return malformed(format!("the parameter {name:?} occurs twice"));
            }
            let value = decode(value)?;
            if !rule.accepts(&value)? {
                return forbidden(format!("the parameter {name:?} with {value:?}"));
            }
            query.0.push((name, value));
        }
        match allowed
            .iter()
            .find(|(name, rule)| *rule == ParamRule::RequiredOff && query.get(name).is_none())
        {
            Some((name, _)) => forbidden(format!("a missing parameter {name:?}")),
            None => Ok(query),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(cache, _)| *cache == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn set(&mut self, name: &'static str, value: String) {
        self.0.retain(|(cache, _)| *cache != name);
        self.0.push((name, value));
    }

    /// The query of a request line with its question mark, with every other character than letters
    /// and digits encoded.
    pub(crate) fn encode(&self) -> String {
        let pairs: Vec<_> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
            .collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }
}

/// Rejects a plus sign: some readers decode it as a space and others as a plus.
fn decode(value: &str) -> RequestResult<String> {
    if value.contains('+') {
        return malformed("its query has a plus sign that is not encoded");
    }
    match percent_decode_str(value).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => malformed("its query is not UTF-8"),
    }
}

impl ParamRule {
    fn accepts(self, value: &str) -> RequestResult<bool> {
        Ok(match self {
            ParamRule::Flag => matches!(value, "true" | "false" | "1" | "0"),
            ParamRule::Off | ParamRule::RequiredOff => matches!(value, "false" | "0"),
            ParamRule::Empty => value.is_empty(),
            ParamRule::Number => {
                value.len() <= 6
                    && !value.is_empty()
                    && value.bytes().all(|byte| byte.is_ascii_digit())
            }
            ParamRule::Name => names::is_ours(value),
            ParamRule::OneOf(words) => words.contains(&value),
            ParamRule::ListFilters => filters::parse(value).map(|_| true)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[QueryParam] =
        &[("force", ParamRule::Flag), ("link", ParamRule::Off), ("name", ParamRule::Name)];

    #[test]
    fn known_parameters_are_encoded_again() {
        let query =
            RequestQuery::parse("force=true&name=skillbox%2Da.b", ALLOWED).expect("a query");
        assert_eq!(query.get("name"), Some("skillbox-a.b"));
        assert_eq!(query.encode(), "?force=true&name=skillbox%2Da%2Eb");
        assert_eq!(RequestQuery::parse("", ALLOWED).expect("nothing").encode(), "");
    }

    #[test]
    fn unknown_and_ambiguous_parameters_are_rejected() {
        for text in [
            "force=2", "force", "Force=1", "forc%65=1", "force=1&force=1", "force=1&", "&force=1",
            "force=1;link=0", "link=1", "name=x", "name=skillbox-a+b", "name=%ff", "v=1", "=",
            "name=skillbox-a%00",
        ] {
            assert!(RequestQuery::parse(text, ALLOWED).is_err(), "{text}");
        }
        assert!(RequestQuery::parse("", &[("stream", ParamRule::RequiredOff)]).is_err());
    }
}
