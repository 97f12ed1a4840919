//! Instructions to a model that people do not see: in comments and invisible elements of Markdown
//! and HTML.

use std::sync::LazyLock;

use regex::Regex;

use super::source::{ScannedFile, TextKind};
use crate::{Finding, Severity};

/// Parts that are not shown when the text is rendered.
static INVISIBLE_MARKUP: LazyLock<Regex> = LazyLock::new(|| {
    let element = r#"<(?:span|div|p)\b[^>]*(?:display:\s*none|visibility:\s*hidden|font-size:\s*0|opacity:\s*0)\b[^>]*>[^<]+"#;
    Regex::new(&format!(r"(?is)<!--.*?-->|{element}")).expect("a constant pattern")
});

/// Orders to disobey or to hide something from the user. Comments for people do not contain them.
static SUSPICIOUS_ORDER: LazyLock<Regex> = LazyLock::new(|| {
    let orders = [
        r"(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+)?(?:of\s+)?(?:the\s+|your\s+)?(?:previous|prior|above|earlier|preceding|other|system)\s+(?:instructions?|rules|prompts?|guidelines|messages)",
        r"(?:do\s+not|don'?t|never)\s+(?:tell|inform|mention|reveal|show|disclose|report|alert|notify)\b.{0,40}\b(?:user|human|operator|anyone)",
        r"without\s+(?:telling|informing|asking|notifying|alerting)\s+(?:the\s+)?(?:user|human|operator)",
        r"(?:silently|secretly|covertly|quietly)\s+(?:run|execute|send|upload|post|read|copy|exfiltrate|download|fetch|include|append)",
        r"(?:hide|conceal|keep)\s+(?:this|it)\s+(?:hidden\s+|secret\s+)?from\s+(?:the\s+)?(?:user|human|operator)",
    ];
    Regex::new(&format!("(?is){}", orders.join("|"))).expect("a constant pattern")
});

pub(super) fn find(source: &ScannedFile<'_>) -> Vec<Finding> {
    if source.kind != TextKind::Prose {
        return Vec::new();
    }
    let order = |unseen: regex::Match<'_>| {
        let order = SUSPICIOUS_ORDER.find(unseen.as_str())?;
        let message = "a part of the text that is not shown tells a model to disobey or to hide something from its user; remove it";
        Some(source.finding(
            "hidden_instruction",
            Severity::Error,
            unseen.start() + order.start(),
            message,
        ))
    };
    INVISIBLE_MARKUP.find_iter(source.text).filter_map(order).collect()
}
