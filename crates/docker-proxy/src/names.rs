//! The syntax of our names and of ids, checked before a request to the engine.

/// Prefix of the names of our containers and volumes.
const NAME_PREFIX: &str = "skillbox-";

const MAX_NAME_BYTES: usize = 128;

/// A name that a launcher of ours may have chosen. Upper case is not allowed, so that no two names
/// differ only in case.
pub(crate) fn is_ours(name: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    name.len() <= MAX_NAME_BYTES
        && name
            .strip_prefix(NAME_PREFIX)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(plain))
}

/// A complete id. A prefix is not accepted: later it may match another container.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_complete_ids_and_prefixed_names() {
        assert!(is_id(&"a1".repeat(32)) && is_ours("skillbox-guest-0.1.0_x"));
        for id in ["", "a1b2c3", &"A1".repeat(32), &"g1".repeat(32), &"a1".repeat(33)] {
            assert!(!is_id(id), "{id}");
        }
        for name in [
            "",
            "skillbox",
            "skillbox-",
            "skillbox-A",
            "other-x",
            "skillbox-a/b",
            "skillbox-ä",
            &format!("skillbox-{}", "a".repeat(200)),
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
