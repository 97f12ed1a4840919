//! Query parameters: each known, of its own type, at most once, and written anew for the engine.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::filters;
use crate::names;
use crate::refusal::{Checked, forbidden, malformed};

/// A parameter that a route takes.
pub type Param = (&'static str, Value);

/// What a parameter may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Flag,
    /// A flag that may only be off.
    Off,
    /// A flag that must be given, and off: the engine takes its absence for on.
    RequiredOff,
    Empty,
    Number,
    /// A name for a container of ours.
    Name,
    OneOf(&'static [&'static str]),
    /// The filters of a list, see [`filters`].
    Filters,
}

/// Parameters that were checked, in the order they came.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Query(Vec<(&'static str, String)>);

const LONGEST_QUERY: usize = 4096;

impl Query {
    pub fn read(text: &str, allowed: &'static [Param]) -> Checked<Query> {
        if text.len() > LONGEST_QUERY {
            return malformed("its query is too long");
        }
        let mut query = Query::default();
        for pair in text.split('&').filter(|_| !text.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some((name, kind)) = allowed.iter().find(|(name, _)| *name == key) else {
                return forbidden(format!("the parameter {key:?}"));
            };
            if query.get(name).is_some() {
                return malformed(format!("the parameter {name:?} comes twice"));
            }
            let value = decode(value)?;
            if !kind.takes(&value)? {
                return forbidden(format!("the parameter {name:?} with {value:?}"));
            }
            query.0.push((name, value));
        }
        match allowed
            .iter()
            .find(|(name, kind)| *kind == Value::RequiredOff && query.get(name).is_none())
        {
            Some((name, _)) => forbidden(format!("the parameter {name:?} left out")),
            None => Ok(query),
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    pub fn set(&mut self, name: &'static str, value: String) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value));
    }

    /// As it stands in a request line, with the question mark; every odd character encoded.
    pub fn write(&self) -> String {
        let pairs: Vec<_> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
            .collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }
}

/// A plus means a space to some and a plus to others, so there is none.
fn decode(value: &str) -> Checked<String> {
    if value.contains('+') {
        return malformed("its query has a plus sign that is not encoded");
    }
    match percent_decode_str(value).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => malformed("its query is not UTF-8"),
    }
}

impl Value {
    fn takes(self, value: &str) -> Checked<bool> {
        Ok(match self {
            Value::Flag => matches!(value, "true" | "false" | "1" | "0"),
            Value::Off | Value::RequiredOff => matches!(value, "false" | "0"),
            Value::Empty => value.is_empty(),
            Value::Number => {
                value.len() <= 6
                    && !value.is_empty()
                    && value.bytes().all(|byte| byte.is_ascii_digit())
            }
            Value::Name => names::is_ours(value),
            Value::OneOf(words) => words.contains(&value),
            Value::Filters => filters::read(value).map(|_| true)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[Param] =
        &[("force", Value::Flag), ("link", Value::Off), ("name", Value::Name)];

    #[test]
    fn known_parameters_are_written_anew() {
        let query = Query::read("force=true&name=skillbox%2Da.b", ALLOWED).expect("a query");
        assert_eq!(query.get("name"), Some("skillbox-a.b"));
        assert_eq!(query.write(), "?force=true&name=skillbox%2Da%2Eb");
        assert_eq!(Query::read("", ALLOWED).expect("nothing").write(), "");
    }

    #[test]
    fn others_are_refused() {
        for text in [
            "force=2", "force", "Force=1", "forc%65=1", "force=1&force=1", "force=1&", "&force=1",
            "force=1;link=0", "link=1", "name=x", "name=skillbox-a+b", "name=%ff", "v=1", "=",
            "name=skillbox-a%00",
        ] {
            assert!(Query::read(text, ALLOWED).is_err(), "{text}");
        }
        assert!(Query::read("", &[("stream", Value::RequiredOff)]).is_err());
    }
}
