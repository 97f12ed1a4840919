//! Options of Node, and the description in a command-line parser or a block comment.

use super::LanguageCode;
use super::description::is_meaningful;
use super::literal::literal;
use super::options::is_plain;

pub(super) const CODE: LanguageCode = LanguageCode { option_words, description };

fn option_words(word: &str, _next: Option<&str>) -> usize {
    /// Node has hundreds of options; these prefixes cover those about how a program is run.
    const ALLOWED_PREFIXES: [&str; 20] = [
        "no-", "max-", "stack-", "harmony", "trace-", "experimental-", "disable-", "enable-",
        "use-strict", "expose-gc", "jitless", "unhandled-rejections", "preserve-symlinks",
        "throw-deprecation", "pending-deprecation", "frozen-intrinsics", "insecure-http-parser",
        "openssl-legacy-provider", "dns-result-order", "title",
    ];
    /// Options with these words load other code.
    const LOADS_CODE: [&str; 3] = ["loader", "config", "sea"];
    let Some(option) = word.strip_prefix("--") else { return 0 };
    let (name, value) = option.split_once('=').unwrap_or((option, "none"));
    // Node takes `_` and `-` as the same letter.
    let name = name.replace('_', "-");
    let allowed = ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && is_plain(&name)
        && is_plain(value);
    usize::from(allowed && !LOADS_CODE.iter().any(|word| name.contains(word)))
}

fn description(text: &str) -> Option<String> {
    let argument_of = |call: &str| text.find(call).and_then(|at| literal(&text[at + call.len()..]));
    [".description(", ".usage("].into_iter().find_map(argument_of).or_else(|| block_comment(text))
}

/// `/** … */` at the top, below the shebang.
fn block_comment(text: &str) -> Option<String> {
    let body = match text.strip_prefix("#!") {
        Some(rest) => rest.split_once('\n')?.1,
        None => text,
    };
    let (block, _) = body.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let mut lines = block.lines().map(|line| line.trim().trim_start_matches('*').trim());
    lines.find(|line| is_meaningful(line)).map(str::to_owned)
}
