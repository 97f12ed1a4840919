//! Patterns of single lines that no legitimate skill runs.

use std::sync::LazyLock;

use regex::Regex;

use super::MAX_FINDINGS_PER_CODE;
use super::source::ScannedFile;
use crate::{Finding, Severity};

struct ScanPattern {
    code: &'static str,
    severity: Severity,
    message: &'static str,
    pattern: Regex,
}

const REVERSE_SHELL: &str = "this gives a shell to a remote listener";
const ENCODED: &str = "this runs code that is encoded so that nobody reads it; write it out";
const DOWNLOADED: &str = "this runs code straight from the network, which is not part of the skill and can change at any time; ship it";
const MINER: &str = "this mines cryptocurrency";
const DESTRUCTION: &str = "this destroys whatever it can reach";
const PERSISTENCE: &str = "this makes sure that something runs again later, outside the skill";
const LISTENER: &str = "this address collects whatever is sent to it, and is known for stolen data";
const ENVIRONMENT: &str =
    "this sends all environment variables, secrets included, to another machine";

/// A shell as the last part of a pipe.
const INTO_SHELL: &str = r"\|\s*(?:sudo\s+(?:-\w+\s+)*)?(?:/(?:usr/)?bin/)?(?:env\s+)?(?:(?:ba|z|da|k)?sh|python[0-9.]*|node|perl|ruby)\b(?:\s+-\w*)*\s*(?:$|[;&)'\x22<]|-s\b|-\s)";

/// Matching is linear in the text, so `*` is cheap. Counted repetitions are not: each count is a
/// state of the automaton.
static PATTERNS: LazyLock<Vec<ScanPattern>> = LazyLock::new(|| {
    use Severity::{Error, Warning};
    let address = r"(?:http://|https?://(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b|https?://(?:bit\.ly|tinyurl\.com|t\.co|is\.gd|paste\.|pastebin\.com|rentry\.co|transfer\.sh)[^\s]*)";
    [
        ("reverse_shell", Error, REVERSE_SHELL, r"\b(?:ba|z|k)?sh\s+-i\b[^\n]*/dev/(?:tcp|udp)/".to_owned()),
        ("reverse_shell", Error, REVERSE_SHELL, r"\bexec\s+[0-9]+<>\s*/dev/(?:tcp|udp)/[^\n]*(?:sh|<&[0-9]|>&[0-9])\b".to_owned()),
        ("reverse_shell", Error, REVERSE_SHELL, r"\b(?:nc|ncat|netcat)\b[^\n|;]*\s(?:-\w*[ec]|--(?:sh-)?exec)\s*(?:/(?:usr/)?bin/)?(?:ba|z|da|c)?sh\b".to_owned()),
        ("reverse_shell", Error, REVERSE_SHELL, r"\bsh\s+-i\b[^\n]*\|\s*(?:nc|ncat|netcat|openssl\s+s_client)\b".to_owned()),
        ("reverse_shell", Error, REVERSE_SHELL, r"\bdup2\([^\n]*\bdup2\([^\n]*(?:pty\.spawn|/bin/(?:ba)?sh)".to_owned()),
        ("reverse_shell", Error, REVERSE_SHELL, r"\bsocat\b[^\n]*\bexec:[^\n]*sh\b".to_owned()),
        ("encoded_code", Error, ENCODED, format!(r"(?m)\bbase(?:64|32)\s+(?:-\w*[dD]|--decode)\b[^\n]*?{INTO_SHELL}")),
        ("encoded_code", Error, ENCODED, format!(r"(?m)\bxxd\s+-r\b[^\n]*?{INTO_SHELL}")),
        ("encoded_code", Error, ENCODED, r#"\b(?:eval|(?:ba|z)?sh\s+-c)\s+["']?(?:\$\(|`)[^\n]*\bbase(?:64|32)\s+(?:-\w*[dD]|--decode)"#.to_owned()),
        (
            "encoded_code", Error, ENCODED,
            r#"\b(?:exec|eval)\s*\(\s*(?:compile\s*\(\s*)?(?:\w+\s*\(\s*)?(?:__import__\(["'](?:base64|zlib|marshal|codecs|binascii)["']\)|base64|zlib|lzma|bz2|marshal|codecs|binascii|bytes)\.(?:b\w+decode|decompress|loads|decode|unhexlify|fromhex)\b"#.to_owned(),
        ),
        (
            "encoded_code", Error, ENCODED,
            r#"\b(?:eval|new\s+Function|Function)\s*\(\s*(?:atob\s*\(|Buffer\.from\s*\([^\n]*["'](?:base64|hex)["'])"#.to_owned(),
        ),
        ("encoded_code", Error, ENCODED, r"(?i)\bpowershell(?:\.exe)?\b[^\n]*\s-e(?:nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{40}".to_owned()),
        ("remote_code", Error, DOWNLOADED, format!(r"(?m)\b(?:curl|wget)\b[^\n|;]*{address}[^\n|;]*{INTO_SHELL}")),
        ("remote_code", Warning, DOWNLOADED, format!(r"(?m)\b(?:curl|wget)\b[^\n|;]*{INTO_SHELL}")),
        ("remote_code", Warning, DOWNLOADED, r#"\b(?:(?:ba|z|da)?sh|source|eval|\.)\s+(?:-c\s+)?["']?(?:<\(|\$\(|`)\s*(?:curl|wget)\b"#.to_owned()),
        (
            "remote_code", Error, DOWNLOADED,
            r"\b(?:exec|eval)\s*\(\s*(?:compile\s*\(\s*)?(?:urllib\.request\.urlopen|urlopen|requests\.get|httpx\.get|(?:await\s+)?\(?\s*await\s+fetch|await\s+\(await\s+fetch)\s*\(".to_owned(),
        ),
        ("remote_code", Error, DOWNLOADED, r"(?i)\biex\b[^\n]*\b(?:iwr|irm|invoke-webrequest|downloadstring)\b|\b(?:iwr|irm)\b[^\n|]*\|\s*iex\b".to_owned()),
        ("miner", Error, MINER, r"\bstratum\+(?:tcp|ssl|tls)://".to_owned()),
        ("miner", Error, MINER, r"\b(?:xmrig|minerd|cpuminer|ccminer|nbminer|lolMiner|phoenixminer|ethminer|cgminer|bfgminer)\b[^\n]*\s(?:-o|--url|-a|--algo|--pool|-P)\b".to_owned()),
        ("destruction", Error, DESTRUCTION, r#"\brm\s+(?:-\w+\s+)*-\w*(?:rf|fr|r\s+-f)\w*\s+(?:--no-preserve-root\s+)?["']?(?:/|~|\$HOME|\$\{HOME\})["']?/?\*?(?:\s|;|&|$|\)|["'])"#.to_owned()),
        ("destruction", Error, DESTRUCTION, r":\s*\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:".to_owned()),
        ("destruction", Error, DESTRUCTION, r"\b(?:mkfs(?:\.\w+)?|dd\s+[^\n]*\bof=)\s*/dev/(?:sd|nvme|vd|hd|xvd)\w".to_owned()),
        ("persistence", Error, PERSISTENCE, r">>?\s*\S*\.ssh/authorized_keys\b".to_owned()),
        ("persistence", Warning, PERSISTENCE, r"\|\s*crontab\s+-|>>?\s*/etc/(?:cron\.\w+/|ld\.so\.preload|rc\.local|profile\.d/)".to_owned()),
        ("collector", Warning, LISTENER, r"(?i)\bhttps?://(?:[\w-]+\.)*(?:webhook\.site|requestbin\.(?:com|net)|pipedream\.net|oastify\.com|burpcollaborator\.net|interact\.sh|oast\.(?:pro|live|site|online|fun|me)|dnslog\.cn|requestcatcher\.com)\b".to_owned()),
        ("collector", Warning, LISTENER, r"\bhttps://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/[0-9]{10,}/[\w-]{30,}".to_owned()),
        ("environment_theft", Error, ENVIRONMENT, r"\b(?:printenv|env|set)\s*\|[^\n]*\b(?:curl|wget|nc|ncat)\b".to_owned()),
        ("environment_theft", Error, ENVIRONMENT, r"\b(?:curl|wget)\b[^\n]*\$\(\s*(?:printenv|env)\s*(?:\||\))".to_owned()),
        (
            "environment_theft", Error, ENVIRONMENT,
            r"(?:post|put|urlopen|request|fetch|send)\s*\([^\n]*(?:(?:dict|str|repr|json\.dumps)\s*\(\s*(?:dict\s*\(\s*)?os\.environ|(?:json|data)\s*=\s*(?:dict\s*\(\s*)?os\.environ\b\s*[,)]|JSON\.stringify\s*\(\s*process\.env\s*\))".to_owned(),
        ),
    ]
    .map(|(code, severity, message, pattern)| ScanPattern {
        code,
        severity,
        message,
        pattern: Regex::new(&pattern).expect("a constant pattern"),
    })
    .into()
});

pub(super) fn find(source: &ScannedFile<'_>) -> Vec<Finding> {
    let found_by = |pattern: &'static ScanPattern| {
        let finding = |found: regex::Match<'_>| {
            let severity = source.severity_at(found.start(), pattern.severity)?;
            Some(source.finding(pattern.code, severity, found.start(), pattern.message))
        };
        pattern.pattern.find_iter(source.text).filter_map(finding).take(MAX_FINDINGS_PER_CODE)
    };
    PATTERNS.iter().flat_map(found_by).collect()
}

/// Whether a command matches any pattern.
pub(super) fn matches_any(command: &str) -> bool {
    PATTERNS.iter().any(|pattern| pattern.pattern.is_match(command))
}
