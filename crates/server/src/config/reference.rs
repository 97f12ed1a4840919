//! What people read of the configuration: the reference page and the effective values.

use serde::Serialize;

use super::settings::{SETTINGS, SettingSpec, Stability, find};
use super::{Config, ValueSource};

/// One effective value, safe to print.
#[derive(Serialize)]
pub struct EffectiveSetting {
    pub name: String,
    /// The value as given, the default, or a mask.
    pub value: String,
    pub source: ValueSource,
}

/// Every supported setting with the value in force; secrets are masked.
pub fn effective(config: &Config) -> Vec<EffectiveSetting> {
    SETTINGS
        .iter()
        .filter(|setting| setting.stability == Stability::Supported)
        .map(|setting| {
            let (value, source) = match config.set.get(setting.key) {
                Some((value, source)) => (mask(setting, value), *source),
                None => (default_value(config, setting), ValueSource::Default),
            };
            EffectiveSetting { name: setting.env(), value, source }
        })
        .collect()
}

/// The default in force, computed where the table can only describe it.
fn default_value(config: &Config, setting: &SettingSpec) -> String {
    match setting.key {
        "data_dir" => config.data_dir.display().to_string(),
        "db_dsn" => mask(setting, &config.dsn()),
        "launchers" => config.launchers.to_string(),
        "retention_logs" | "retention_artifacts" => match config.set.get("retention_executions") {
            Some((value, _)) => value.clone(),
            None => find("retention_executions").map_or("", |setting| setting.default).to_owned(),
        },
        "max_concurrent_execs" => config.max_concurrent_execs.to_string(),
        _ => setting.default.to_owned(),
    }
}

fn mask(setting: &SettingSpec, value: &str) -> String {
    if setting.secret {
        return "********".into();
    }
    if setting.key != "db_dsn" {
        return value.to_owned();
    }
    // The password sits between the first colon after `//` and the last `@`; a query may carry one
    // too.
    let value = value.split_once('?').map_or(value, |(base, _)| base);
    match value.split_once("//").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (user, host))) => {
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}//{user}:********@{host}")
        }
        None => value.to_owned(),
    }
}

/// The page `docs/configuration.md`. A test compares it with the committed one.
pub fn reference_markdown() -> String {
    let mut page = String::from(HEAD);
    page.push_str("| variable | default | meaning |\n|---|---|---|\n");
    for setting in SETTINGS.iter().filter(|setting| setting.stability == Stability::Supported) {
        let default = if setting.default.is_empty() { "–" } else { setting.default };
        page.push_str(&format!("| `{}` | {default} | {} |\n", setting.env(), setting.help));
    }
    page.push_str("\n## Reserved\n\n");
    for setting in SETTINGS.iter().filter(|setting| setting.stability == Stability::Reserved) {
        page.push_str(&format!("- `{}`: {}\n", setting.env(), setting.help));
    }
    page
}

const HEAD: &str = "# Configuration

<!-- Generated from crates/server/src/config/settings.rs by `UPDATE=1 cargo test -p server`. -->

Every setting is an environment variable, a flag of `skillbox serve` (`SKILLBOX_API_PORT` is `--api-port`) and a key of an
optional TOML file (`api_port`) named by `SKILLBOX_CONFIG` or `--config`. A flag wins over the environment, the environment
over the file, the file over the default. `skillbox config` prints the values in force with secrets masked.

With nothing set, `skillbox serve` is complete: SQLite and a directory under the data directory, the native sandbox,
`127.0.0.1:8080`. A bad or empty value stops the start and names the variable. So does a variable that starts with
`SKILLBOX_` and is not listed here, and an unknown key in the file; the message suggests the closest name. Accepted and ignored
are the variables of the client (`SKILLBOX_SERVER_URL`, `SKILLBOX_API_KEY`, `SKILLBOX_TENANT_ID`), of `skillbox docker-proxy`
(`SKILLBOX_PROXY_…`), of the compose file and the tests of this repository (`SKILLBOX_VERSION`, `SKILLBOX_LISTEN`, `SKILLBOX_BIN`,
`SKILLBOX_TEST_…`), and the links that Kubernetes sets for Services whose names start with `skillbox`.

Durations are written `500ms`, `30s`, `1m30s`, `2h`; sizes `1048576`, `256Ki`, `64Mi`, `1Gi`; CPUs `0.5`, `500m`, `2`.

";
