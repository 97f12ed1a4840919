//! Secrets that were left in a skill by accident: every reader of the skill has them.
//!
//! A finding needs more than a prefix: the length must be right, the characters must look
//! random, and nothing may mark it as an example. The secret itself is never
//! repeated in a message.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::MAX_FINDINGS_PER_CODE;
use super::source::ScannedFile;
use crate::{Finding, Severity};

/// A kind of token. The group `secret` of its pattern is the random part.
struct TokenPattern {
    what: &'static str,
    pattern: Regex,
}

static TOKENS: LazyLock<Vec<TokenPattern>> = LazyLock::new(|| {
    [
        ("an access key of AWS", r"\b(?:AKIA|ASIA)(?<secret>[A-Z2-7]{16})\b"),
        (
            "a secret key of AWS",
            r#"(?i)aws_?secret_?(?:access_?)?key["']?\s*[:=]\s*["']?(?<secret>[A-Za-z0-9/+]{40})(?:["'\s]|$)"#,
        ),
        ("an API key of Google", r"\bAIza(?<secret>[0-9A-Za-z_-]{35})\b"),
        ("a token of GitHub", r"\bgh[pousr]_(?<secret>[A-Za-z0-9]{36})\b"),
        ("a token of GitHub", r"\bgithub_pat_(?<secret>[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
        ("a token of GitLab", r"\bglpat-(?<secret>[0-9A-Za-z_-]{20})\b"),
        ("a token of Slack", r"\bxox[abprs]-(?<secret>[0-9]{8,14}-[0-9A-Za-z-]{20,80})\b"),
        ("a live key of Stripe", r"\b[sr]k_live_(?<secret>[0-9a-zA-Z]{24,99})\b"),
        ("a key of OpenAI", r"\bsk-(?:proj|svcacct|admin)-(?<secret>[A-Za-z0-9_-]{40,200})\b"),
        ("a key of OpenAI", r"\bsk-(?<secret>[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})\b"),
        ("a key of Anthropic", r"\bsk-ant-(?:api|admin)[0-9]{2}-(?<secret>[A-Za-z0-9_-]{80,120})\b"),
        ("a token of npm", r"\bnpm_(?<secret>[A-Za-z0-9]{36})\b"),
        ("a token of PyPI", r"\bpypi-AgEIcHlwaS5vcmc(?<secret>[A-Za-z0-9_-]{50,250})"),
        ("a token of Hugging Face", r"\bhf_(?<secret>[A-Za-z]{34})\b"),
        ("a key of SendGrid", r"\bSG\.(?<secret>[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})\b"),
        ("a token of a Telegram bot", r"\b[0-9]{8,10}:AA(?<secret>[A-Za-z0-9_-]{33})\b"),
    ]
    .map(|(what, pattern)| TokenPattern { what, pattern: Regex::new(pattern).expect("a constant pattern") })
    .into()
});

static PRIVATE_KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"-----BEGIN (?:[A-Z]{2,10} )?PRIVATE KEY(?: BLOCK)?-----")
        .expect("a constant pattern")
});

/// Keys are longer than this; placeholders are not.
const MIN_KEY_CHARS: usize = 100;
/// How far after its first line the body of a key is searched.
const MAX_KEY_SEARCH_BYTES: usize = 1_000;

pub(super) fn find(source: &ScannedFile<'_>) -> Vec<Finding> {
    // Test data often contains made-up keys, which cannot be distinguished from real ones.
    let severity = if source.is_test_data() { Severity::Info } else { Severity::Error };
    let secret = |what: &str, at| {
        let message =
            format!("this looks like {what}; revoke it, and pass secrets in `env` instead");
        source.finding("secret", severity, at, &message)
    };
    let mut findings = Vec::new();
    for found in PRIVATE_KEY.find_iter(source.text) {
        if has_key_body(&source.text[found.end()..]) {
            findings.push(secret("a private key", found.start()));
        }
    }
    for token in TOKENS.iter() {
        let real = |found: regex::Captures<'_>| {
            let at = found.get(0)?.start();
            let real = looks_random(&found["secret"]) && !mentions_example(source.around(at));
            real.then(|| secret(token.what, at))
        };
        findings.extend(
            token.pattern.captures_iter(source.text).filter_map(real).take(MAX_FINDINGS_PER_CODE),
        );
    }
    findings
}

/// Whether enough random Base64 follows, on lines of its own or as the `\n` of a JSON string.
fn has_key_body(rest: &str) -> bool {
    let end = rest.find("-----END").unwrap_or(rest.len()).min(MAX_KEY_SEARCH_BYTES);
    let end = (0..=end).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(0);
    let body = rest[..end].replace("\\n", "");
    let body: String =
        body.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/')).collect();
    body.len() >= MIN_KEY_CHARS && looks_random(&body)
}

/// Whether the characters could be random: many different ones, and no typical placeholder word.
fn looks_random(secret: &str) -> bool {
    const PLACEHOLDER_WORDS: [&str; 14] = [
        "example", "xxxx", "your", "placeholder", "dummy", "sample", "fake", "redacted", "test",
        "0000", "1234", "abcd", "aaaa", "changeme",
    ];
    let lower = secret.to_ascii_lowercase();
    // A long secret can contain such a word by chance.
    let short = secret.len() <= 64;
    !(short && PLACEHOLDER_WORDS.iter().any(|word| lower.contains(word)))
        && entropy(secret) >= min_entropy(secret.len())
}

fn mentions_example(around: &str) -> bool {
    let lower = around.to_ascii_lowercase();
    ["example", "placeholder", "dummy", "fake", "not a real"]
        .iter()
        .any(|word| lower.contains(word))
}

/// The entropy in bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts: HashMap<u8, u32> = HashMap::new();
    for byte in text.bytes() {
        *counts.entry(byte).or_default() += 1;
    }
    let length = text.len().max(1) as f64;
    let bits = |count: &u32| {
        let share = f64::from(*count) / length;
        -share * share.log2()
    };
    counts.values().map(bits).sum()
}

/// Of sixteen random characters some are the same; of forty nearly five bits each remain.
fn min_entropy(length: usize) -> f64 {
    if length < 24 { 2.9 } else { 3.6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_strings_are_distinguished_from_placeholders() {
        for random in ["Q7ZL2VNX4TWKJ5RA", "u8Jq2LmZx7Kp4Wv9Rt1Ns6Yb3Hc5Gd0FeQa"] {
            assert!(looks_random(random), "{random}");
        }
        for made_up in [
            "IOSFODNN7EXAMPLE", "XXXXXXXXXXXXXXXX", "AAAABBBBAAAABBBB",
            "0123456789abcdef0123456789abcdef0123",
        ] {
            assert!(!looks_random(made_up), "{made_up}");
        }
    }
}
