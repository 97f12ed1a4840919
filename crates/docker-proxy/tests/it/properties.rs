//! Whatever is sent: what gets through means the same to every reader, and nothing makes the proxy
//! fall over.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use tokio::runtime::Runtime;

use crate::bodies::sandbox;
use crate::support::{mutating_requests, pair};

/// JSON as a careless reader has it: members in order, names as often as they come.
#[derive(Debug, Clone)]
enum LenientValue {
    Object(Vec<(String, LenientValue)>),
    List(Vec<LenientValue>),
    Text(String),
    Bool(bool),
    Other,
}

impl<'de> Deserialize<'de> for LenientValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = LenientValue;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }
            fn visit_bool<E>(self, value: bool) -> Result<LenientValue, E> {
                Ok(LenientValue::Bool(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<LenientValue, E> {
                Ok(LenientValue::Text(value.into()))
            }
            fn visit_i64<E>(self, _: i64) -> Result<LenientValue, E> {
                Ok(LenientValue::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<LenientValue, E> {
                Ok(LenientValue::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<LenientValue, E> {
                Ok(LenientValue::Other)
            }
            fn visit_unit<E>(self) -> Result<LenientValue, E> {
                Ok(LenientValue::Other)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<LenientValue, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(LenientValue::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<LenientValue, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = object.next_entry()? {
                    members.push(member);
                }
                Ok(LenientValue::Object(members))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Names as Go's decoder compares them.
fn fold(name: &str) -> String {
    name.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect::<String>()
        .replace('\u{212a}', "k")
}

/// Which of several members of one name a reader takes.
#[derive(Clone, Copy)]
enum DuplicateKeyRule {
    First,
    Last,
}

impl LenientValue {
    fn get(&self, name: &str, wins: DuplicateKeyRule) -> Option<&LenientValue> {
        let LenientValue::Object(members) = self else { return None };
        let mut found =
            members.iter().filter(|(known, _)| fold(known) == fold(name)).map(|(_, value)| value);
        match wins {
            DuplicateKeyRule::First => found.next(),
            DuplicateKeyRule::Last => found.next_back(),
        }
    }

    fn is_empty_list(&self) -> bool {
        matches!(self, LenientValue::List(items) if items.is_empty())
    }

    fn is_text(&self, texts: &[&str]) -> bool {
        matches!(self, LenientValue::Text(text) if texts.contains(&text.as_str()))
    }
}

/// The values that matter most, as this reader sees them.
fn harmless(body: &LenientValue, wins: DuplicateKeyRule) -> bool {
    let Some(host) = body.get("HostConfig", wins) else { return false };
    let absent_or = |name: &str, good: &dyn Fn(&LenientValue) -> bool| {
        host.get(name, wins).is_none_or(|value| matches!(value, LenientValue::Other) || good(value))
    };
    let empty = |name: &str| absent_or(name, &LenientValue::is_empty_list);
    let none = |name: &str| absent_or(name, &|value| value.is_text(&[""]));
    let mounts = match host.get("Mounts", wins) {
        Some(LenientValue::List(mounts)) => mounts.iter().all(|mount| {
            mount.get("Type", wins).is_some_and(|kind| kind.is_text(&["volume"]))
                && matches!(mount.get("ReadOnly", wins), Some(LenientValue::Bool(true)))
        }),
        _ => true,
    };
    !matches!(host.get("Privileged", wins), Some(LenientValue::Bool(true)))
        && ["Binds", "Devices", "CapAdd", "VolumesFrom"].into_iter().all(empty)
        && ["PidMode", "UTSMode", "UsernsMode"].into_iter().all(none)
        && host.get("NetworkMode", wins).is_some_and(|mode| mode.is_text(&["none"]))
        && host.get("IpcMode", wins).is_some_and(|mode| mode.is_text(&["none", "private"]))
        && matches!(host.get("ReadonlyRootfs", wins), Some(LenientValue::Bool(true)))
        && body.get("User", wins).is_some_and(|user| user.is_text(&["65534:65534"]))
        && mounts
}

/// Puts a member somewhere into the text of the body.
#[derive(Debug, Clone)]
struct Edit {
    place: usize,
    name: String,
    value: String,
}

impl Edit {
    fn apply(&self, text: &str) -> String {
        let places: Vec<_> =
            text.match_indices(['{', ',']).map(|(at, found)| at + found.len()).collect();
        let at = places[self.place % places.len()];
        let name = serde_json::Value::from(self.name.as_str());
        format!("{}{name}:{},{}", &text[..at], self.value, &text[at..])
    }
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let names = prop::sample::select(vec![
        "Privileged", "Binds", "Devices", "CapAdd", "NetworkMode", "PidMode", "IpcMode", "UTSMode",
        "UsernsMode", "Mounts", "ReadOnly", "Type", "User", "HostConfig", "ReadonlyRootfs", "Init",
        "Runtime", "skillbox.extra", "Soft",
    ]);
    let spelled = (names, any::<u32>(), 0..4u8).prop_map(|(name, bits, how)| match how {
        0 | 1 => name.to_owned(),
        2 => name
            .char_indices()
            .map(|(at, c)| {
                if bits >> (at % 32) & 1 == 1 {
                    c.to_ascii_uppercase()
                } else {
                    c.to_ascii_lowercase()
                }
            })
            .collect(),
        _ => name.replace('s', "\u{17f}").replace(['k', 'K'], "\u{212a}"),
    });
    let values = prop::sample::select(vec![
        "true", "false", "null", "[]", r#"["/:/host"]"#, r#""host""#, r#""none""#, r#""0:0""#, "1",
        r#""x""#, "{}", r#"{"Privileged":true}"#, "[null]",
    ]);
    let edit = (any::<usize>(), spelled, values).prop_map(|(place, name, value)| Edit {
        place,
        name,
        value: value.to_owned(),
    });
    prop::collection::vec(edit, 0..3)
}

#[test]
fn accepted_bodies_are_harmless_for_every_parser() {
    let runtime = Runtime::new().expect("a runtime");
    let (engine, proxy) = runtime.block_on(pair());
    let (passed, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Values that were there, taken away, so that some edits put back what is missing.
    let base =
        sandbox().to_string().replace(r#""Init":false,"#, "").replace(r#""Privileged":false,"#, "");
    let mut runner =
        TestRunner::new(Config { cases: 1500, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&edits(), |edits| {
        let text = edits.iter().fold(base.clone(), |text, edit| edit.apply(&text));
        let before = mutating_requests(&engine.requests()).len();
        let answer = runtime.block_on(proxy.ask("POST", "/containers/create", &text));
        let requests = engine.requests();
        let requests = mutating_requests(&requests);
        if answer.status != 201 {
            refused.fetch_add(1, Ordering::Relaxed);
            prop_assert!(matches!(answer.status, 400 | 403 | 404), "{answer:?}");
            prop_assert_eq!(requests.len(), before, "the engine saw what was refused");
            return Ok(());
        }
        passed.fetch_add(1, Ordering::Relaxed);
        for body in [text.as_str(), requests[before].body.as_str()] {
            let body: LenientValue = serde_json::from_str(body).expect("JSON");
            prop_assert!(
                harmless(&body, DuplicateKeyRule::First) && harmless(&body, DuplicateKeyRule::Last),
                "{body:?}"
            );
        }
        Ok(())
    });
    outcome.expect("the property holds");
    let (passed, refused) = (passed.into_inner(), refused.into_inner());
    assert!(passed > 50 && refused > 50, "both happen: {passed} passed, {refused} were refused");
}

#[test]
fn the_lenient_parser_finds_hidden_duplicates() {
    let hidden = sandbox()
        .to_string()
        .replace(r#""Privileged":false"#, "\"Privileged\":false,\"PRIVILEGED\":true");
    let body: LenientValue = serde_json::from_str(&hidden).expect("JSON");
    assert!(harmless(&body, DuplicateKeyRule::First) && !harmless(&body, DuplicateKeyRule::Last));
    let folded = sandbox().to_string().replace(r#""Binds":[]"#, "\"Bind\u{17f}\":[\"/:/host\"]");
    assert!(!harmless(&serde_json::from_str(&folded).expect("JSON"), DuplicateKeyRule::First));
}

#[test]
fn arbitrary_bytes_do_not_crash_the_proxy() {
    let runtime = Runtime::new().expect("a runtime");
    let (engine, proxy) = runtime.block_on(pair());
    let requests = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|mut bytes| { bytes.extend(b"\r\n\r\n"); bytes }),
        ("[A-Z]{1,8}", "/[ -~]{0,60}", "[ -~]{0,40}").prop_map(|(method, path, header)| format!("{method} {path} HTTP/1.1\r\nHost: x\r\nX: {header}\r\n\r\n").into_bytes()),
        ("(GET|POST|DELETE)", "(/v1.[0-9]{2})?/(containers|images|volumes)/[a-z0-9%./:-]{0,30}(/json|/start|/create)?(\\?[a-z]{1,6}=[ -~]{0,10})?")
            .prop_map(|(method, path)| format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()),
    ];
    let mut runner =
        TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&requests, |bytes| {
        runtime.block_on(proxy.raw_and_close(&bytes));
        Ok(())
    });
    outcome.expect("nothing fell over");
    assert!(
        mutating_requests(&engine.requests()).is_empty(),
        "{:?}",
        mutating_requests(&engine.requests())
    );
    assert_eq!(runtime.block_on(proxy.ask("GET", "/_ping", "")).status, 200);
}
