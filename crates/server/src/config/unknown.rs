//! Names that are no setting: refused, because a misspelt limit is a limit that does not hold.

use std::collections::BTreeMap;

use super::ConfigError;
use super::settings::{self, SETTINGS};

/// Variables with our prefix that the server does not read: those of the client, of `docker-proxy`,
/// of the compose file and of the scripts of this repository. A server often shares its environment
/// with them.
const OTHER_VARIABLES: &[&str] = &[
    "SKILLBOX_CONFIG", "SKILLBOX_SERVER_URL", "SKILLBOX_API_KEY", "SKILLBOX_TENANT_ID",
    "SKILLBOX_PROXY_LISTEN", "SKILLBOX_PROXY_ENGINE", "SKILLBOX_PROXY_NAME",
    "SKILLBOX_PROXY_HOSTS", "SKILLBOX_PROXY_MAX_PIDS", "SKILLBOX_PROXY_MAX_VOLUMES",
    "SKILLBOX_VERSION", "SKILLBOX_LISTEN", "SKILLBOX_FIXTURE", "SKILLBOX_BIN",
    "SKILLBOX_CONFORMANCE", "SKILLBOX_EXAMPLES",
];

/// Prefixes of names that only tests read.
const TEST_PREFIXES: [&str; 2] = ["SKILLBOX_TEST_", "SKILLBOX_MCP_PYTHON_"];

/// Below this similarity a suggestion would only confuse.
const MIN_SIMILARITY: f64 = 0.5;

pub(super) fn check_variables(environment: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    let ours: Vec<String> = SETTINGS.iter().map(settings::SettingSpec::env).collect();
    let known = |name: &str, value: &str| {
        ours.iter().any(|our| our == name)
            || OTHER_VARIABLES.contains(&name)
            || TEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || is_service_link(name, value)
    };
    let Some(name) =
        environment.iter().find(|(name, value)| !known(name, value)).map(|(name, _)| name)
    else {
        return Ok(());
    };
    let others = OTHER_VARIABLES.iter().copied();
    Err(not_a_setting(
        name,
        ours.iter().map(String::as_str).chain(others),
        "unset it, or correct it",
    ))
}

pub(super) fn check_keys(file: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    match file.keys().find(|key| settings::find(key).is_none()) {
        Some(key) => Err(not_a_setting(
            key,
            SETTINGS.iter().map(|setting| setting.key),
            "remove it, or correct it",
        )),
        None => Ok(()),
    }
}

fn not_a_setting<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
    way_out: &str,
) -> ConfigError {
    let why = match closest(name, known) {
        Some(close) => format!(
            "is not a setting; did you mean `{close}`? Otherwise {way_out} (docs/configuration.md)"
        ),
        None => format!("is not a setting; {way_out} (docs/configuration.md)"),
    };
    ConfigError::Invalid { name: name.to_owned(), why }
}

fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Every variable has our prefix, which says nothing about likeness.
    let bare = |name: &str| name.trim_start_matches("SKILLBOX_").to_lowercase();
    let likeness =
        |candidate: &str| strsim::normalized_damerau_levenshtein(&bare(name), &bare(candidate));
    let best = known
        .map(|candidate| (likeness(candidate), candidate))
        .max_by(|one, two| one.0.total_cmp(&two.0));
    best.filter(|(likeness, _)| *likeness >= MIN_SIMILARITY).map(|(_, candidate)| candidate)
}

/// What Kubernetes sets in every container for a Service called `skillbox` or `skillbox-…`, unless
/// its pod says `enableServiceLinks: false`. Nobody misspells a setting into one of these.
fn is_service_link(name: &str, value: &str) -> bool {
    let address =
        value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && address)
        || name.split_once("_PORT_").is_some_and(|(_, rest)| {
            let (number, protocol) = rest.split_once('_').unwrap_or_default();
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            digits && ["TCP", "UDP", "SCTP"].iter().any(|known| protocol.starts_with(known))
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn refusal(name: &str, value: &str) -> Option<String> {
        let environment = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        check_variables(&environment).err().map(|error| error.to_string())
    }

    #[test]
    fn a_misspelt_variable_is_refused_with_the_closest_name() {
        for (name, meant) in [
            ("SKILLBOX_PORT", "SKILLBOX_API_PORT"),
            ("SKILLBOX_API_PROT", "SKILLBOX_API_PORT"),
            ("SKILLBOX_REQUIRES", "SKILLBOX_REQUIRE"),
            ("SKILLBOX_IMAGE_ALLOW_LIST", "SKILLBOX_IMAGE_ALLOWLIST"),
            ("SKILLBOX_MAX_CONCURENT_EXECS", "SKILLBOX_MAX_CONCURRENT_EXECS"),
            ("SKILLBOX_BOOTSTRAPKEY", "SKILLBOX_BOOTSTRAP_KEY"),
            ("SKILLBOX_APIKEY", "SKILLBOX_API_KEY"),
        ] {
            let message = refusal(name, "1").expect(name);
            assert!(message.starts_with(name), "{message}");
            assert!(message.contains(&format!("`{meant}`")), "{message}");
            assert_eq!(refusal(meant, "1"), None, "control: spelt well, it is taken");
        }
        let message = refusal("SKILLBOX_FRUIT_BASKET", "hush").expect("refused");
        assert!(!message.contains("did you mean") && !message.contains("hush"), "{message}");
    }

    #[test]
    fn variables_of_our_other_programs_are_accepted() {
        for name in
            OTHER_VARIABLES.iter().copied().chain(["SKILLBOX_TEST_ENGINE", "SKILLBOX_REDIS_URL"])
        {
            assert_eq!(refusal(name, "x"), None, "{name}");
        }
    }

    #[test]
    fn service_links_of_kubernetes_are_accepted() {
        for (name, value) in [
            ("SKILLBOX_SERVICE_HOST", "10.0.0.1"),
            ("SKILLBOX_SERVICE_PORT", "8080"),
            ("SKILLBOX_POSTGRES_SERVICE_PORT_SQL", "5432"),
            ("SKILLBOX_PORT", "tcp://10.0.0.1:8080"),
            ("SKILLBOX_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("SKILLBOX_MINIO_PORT_9000_TCP_ADDR", "10.0.0.1"),
        ] {
            assert_eq!(refusal(name, value), None, "{name}");
        }
        assert!(refusal("SKILLBOX_PORT", "8080").is_some(), "control: this one is no link");
        assert!(refusal("SKILLBOX_PORT_X_TCP", "8080").is_some());
    }

    /// Every name with our prefix in the files below `path`. One that ends in `_` is the start of
    /// several.
    fn names_in(path: &Path, found: &mut BTreeSet<String>) {
        if path.is_dir() {
            for entry in std::fs::read_dir(path).expect("a directory").flatten() {
                let made = ["node_modules", "dist", ".venv", "target"]
                    .iter()
                    .any(|made| entry.file_name() == *made);
                if !made && !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                    names_in(&entry.path(), found);
                }
            }
            return;
        }
        let text = String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned();
        let words =
            text.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
        found.extend(
            words
                .filter(|word| word.starts_with("SKILLBOX_") && !word.ends_with('_'))
                .map(str::to_owned),
        );
    }

    #[test]
    fn what_this_repository_sets_does_not_stop_a_server() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut names = BTreeSet::new();
        for part in ["scripts", "deploy", "sdks", "examples", "docker-compose.yml", "Makefile"] {
            names_in(&root.join(part), &mut names);
        }
        assert!(names.len() > 40, "the files are read: {names:?}");
        let refused: Vec<_> = names.iter().filter(|name| refusal(name, "1").is_some()).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}
