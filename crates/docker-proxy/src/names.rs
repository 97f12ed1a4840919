//! Names and ids: which can be ours at all, before the engine is asked.

/// What the names of our containers and volumes start with.
const PREFIX: &str = "skillbox-";

const LONGEST: usize = 128;

/// A name that a launcher of ours may have given. Upper case is left out, so no two names differ by
/// case alone.
pub fn is_ours(name: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    name.len() <= LONGEST
        && name.strip_prefix(PREFIX).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(plain))
}

/// A whole id. A beginning of one is refused: it may mean another container tomorrow.
pub fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_whole_and_names_are_ours() {
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
