//! Files that steal credentials: they read credentials and send data.
//!
//! Legitimate tools do one without the other: a skill for Kubernetes reads `~/.kube/config`, and
//! many skills call an API.

use std::sync::LazyLock;

use regex::Regex;

use super::source::{ScannedFile, TextKind};
use crate::{Finding, Severity};

/// Paths and addresses of credentials, by their owner.
const CREDENTIAL_STORES: &[(&str, &str)] = &[
    ("SSH", r"\.ssh/(?:id_\w+|\*|identity)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b"),
    ("AWS", r"\.aws/(?:credentials|\*)"),
    (
        "Google Cloud",
        r"(?:\.config/)?gcloud/(?:credentials|application_default_credentials|access_tokens|\*)",
    ),
    ("Azure", r"\.azure/(?:accessTokens|msal_token_cache|azureProfile|\*)"),
    ("Kubernetes", r"\.kube/config|/var/run/secrets/kubernetes\.io"),
    ("Docker", r"\.docker/config\.json|/run/docker\.sock"),
    ("Git", r"\.git-credentials|\.config/gh/hosts\.yml"),
    ("npm", r"\.npmrc\b"),
    ("PyPI", r"\.pypirc\b"),
    ("netrc", r"\.netrc\b"),
    ("the system's passwords", r"/etc/shadow\b"),
    (
        "a browser",
        r"Login Data\b|logins\.json\b|key4\.db\b|cookies\.sqlite\b|Google/Chrome/User Data",
    ),
    (
        "a wallet",
        r"\bwallet\.dat\b|\.electrum/wallets|\.config/solana/id\.json|nkbihfbeogaeaoehlefnkodbefgpgknn",
    ),
    ("other processes", r"/proc/(?:\d+|\*|\{\w+\}|\$\w+|self|1)/environ\b"),
    ("a shell's history", r"\.(?:bash|zsh)_history\b"),
    ("GnuPG", r"\.gnupg/(?:private-keys|secring|\*)"),
    ("a cloud's metadata service", r"\b169\.254\.169\.254\b|metadata\.google\.internal"),
];

/// This many stores in one file are reported even if nothing is sent.
const MIN_COLLECTED_STORES: usize = 4;

static STORE_PATTERNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    CREDENTIAL_STORES
        .iter()
        .map(|(whose, pattern)| (*whose, Regex::new(pattern).expect("a constant pattern")))
        .collect()
});

/// Code that sends data, as opposed to code that only requests something.
static SENDS_DATA: LazyLock<Regex> = LazyLock::new(|| {
    let ways = [
        r"\b(?:requests|httpx|session|aiohttp|axios|client)\.(?:post|put)\s*\(",
        r"\burlopen\s*\([^\n]*\bdata\s*=",
        r"\burllib\.request\.Request\s*\([^\n]*\bdata\s*=",
        r"\bcurl\b[^\n]*\s(?:-d|-F|-T|--data\S*|--form|--upload-file|-X\s*(?:POST|PUT))\b",
        r"\bwget\b[^\n]*--post-(?:data|file)",
        r#"\bfetch\s*\([^\n]*\bmethod\s*:\s*["'](?:POST|PUT)"#,
        r"\b(?:nc|ncat|netcat)\s+(?:-\w+\s+)*[\w.-]+\s+[0-9]{2,5}\b",
        r"\bsmtplib\.SMTP",
        r"\.connect\s*\(\s*\(",
        r"\bgethostbyname\s*\(\s*(?:f[\x22']|[^\n)]+\+)",
    ];
    Regex::new(&ways.join("|")).expect("a constant pattern")
});

pub(super) fn find(source: &ScannedFile<'_>) -> Option<Finding> {
    if source.kind != TextKind::Code {
        return None;
    }
    let runs = |at: usize| source.severity_at(at, Severity::Error).is_some();
    let mut stores = Vec::new();
    for (whose, pattern) in STORE_PATTERNS.iter() {
        let read = pattern.find_iter(source.text).find(|found| runs(found.start()));
        stores.extend(read.map(|found| (found.start(), *whose)));
    }
    let (first, _) = stores.iter().min()?;
    let whose: Vec<&str> = stores.iter().map(|(_, whose)| *whose).collect();
    let sends = SENDS_DATA.find_iter(source.text).any(|found| runs(found.start()));
    let message = match (sends, stores.len()) {
        (true, _) if includes_foreign_credentials(&whose) => {
            format!("this reads credentials of {} and sends something away", whose.join(", "))
        }
        (_, MIN_COLLECTED_STORES..) => {
            format!("this collects credentials from all over the machine: {}", whose.join(", "))
        }
        _ => return None,
    };
    Some(source.finding("credential_theft", Severity::Error, *first, &message))
}

/// Whether these are more than the credentials that one tool uses for its own service.
fn includes_foreign_credentials(whose: &[&str]) -> bool {
    // A tool that publishes packages reads its own token and sends data; one that deploys reads its
    // own configuration.
    const TOOLS_OWN: [&str; 6] =
        ["npm", "PyPI", "Kubernetes", "Docker", "a cloud's metadata service", "netrc"];
    whose.len() > 1 || !whose.iter().all(|whose| TOOLS_OWN.contains(whose))
}
