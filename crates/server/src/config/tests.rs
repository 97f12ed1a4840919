use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn resolve(flags: &[(&str, &str)], environment: &[(&str, &str)], file: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let surroundings = Surroundings { home: Some("/home/ada".into()), ..Surroundings::default() };
    Config::resolve(&map(flags), &map(environment), &map(file), surroundings)
}

fn refusal(environment: &[(&str, &str)]) -> String {
    match resolve(&[], environment, &[]) {
        Ok(_) => panic!("{environment:?} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn nothing_set_is_the_embedded_mode() {
    let config = resolve(&[], &[], &[]).expect("the defaults");
    assert_eq!(config.data_dir, Path::new("/home/ada/.local/share/skillbox"));
    assert_eq!(config.dsn(), "sqlite:/home/ada/.local/share/skillbox/skillbox.db");
    assert!(config.is_loopback());
    assert_eq!((config.api_port, config.max_skill_bytes), (8080, 52_428_800));
    assert_eq!(config.default_timeout, Duration::from_secs(120));
    assert_eq!((config.default_cpu_millis, config.max_memory_bytes), (500, 1 << 30));
    for image in ["python:3.12-slim", "node:20-slim", "bash:5"] {
        assert!(config.image_allowlist.iter().any(|allowed| allowed == image), "{image}");
    }
}

#[test]
fn a_flag_beats_the_environment_beats_the_file() {
    let port = |flags: &[_], environment: &[_], file: &[_]| {
        resolve(flags, environment, file).expect("a configuration").api_port
    };
    let (flag, environment, file) = (("api_port", "1"), ("SKILLBOX_API_PORT", "2"), ("api_port", "3"));
    assert_eq!(port(&[flag], &[environment], &[file]), 1);
    assert_eq!(port(&[], &[environment], &[file]), 2);
    assert_eq!(port(&[], &[], &[file]), 3);
}

#[test]
fn every_bad_value_names_its_variable() {
    let cases = [
        ("SKILLBOX_BIND", "everywhere"),
        ("SKILLBOX_API_PORT", "65536"),
        ("SKILLBOX_DB_DSN", "mysql://x"),
        ("SKILLBOX_PUBLIC_URL", "skills.example.com"),
        ("SKILLBOX_PUBLIC_URL", "https://x/?y"),
        ("SKILLBOX_BOOTSTRAP_KEY", "two words"),
        ("SKILLBOX_SANDBOX", "docker"),
        ("SKILLBOX_SANDBOX", "nativ"),
        ("SKILLBOX_REQUIRE", "seccomp,landlok"),
        ("SKILLBOX_DEFAULT_TIMEOUT", "soon"),
        ("SKILLBOX_DEFAULT_TIMEOUT", "11m"),
        ("SKILLBOX_MAX_MEMORY", "1GiB of it"),
        ("SKILLBOX_MAX_CPU", "0"),
        ("SKILLBOX_MAX_OUTPUT_SIZE", "-1"),
        ("SKILLBOX_MAX_CONCURRENT_EXECS", "0"),
        ("SKILLBOX_LOG_LEVEL", "lo=u=d"),
        ("SKILLBOX_LOG_LEVEL", "loud"),
        ("SKILLBOX_LOG_LEVEL", "runner=debug,loud"),
        ("SKILLBOX_IMAGE_ALLOWLIST", ","),
        ("SKILLBOX_IMAGE_ALLOWLIST", "python:3.12-slim bash:5"),
        ("SKILLBOX_LOG_FORMAT", "xml"),
    ];
    for (name, value) in cases {
        let message = refusal(&[(name, value)]);
        assert!(message.starts_with(name), "{name}={value}: {message}");
    }
}

#[test]
fn every_supported_setting_refuses_to_be_empty() {
    for setting in SETTINGS.iter().filter(|setting| setting.standing == Standing::Supported) {
        for empty in ["", "  "] {
            let message = refusal(&[(&setting.env(), empty)]);
            assert!(message.starts_with(&setting.env()), "{message}");
        }
    }
}

#[test]
fn later_settings_are_refused_by_name_and_reserved_ones_accepted() {
    let message = refusal(&[("SKILLBOX_S3_ENDPOINT", "http://localhost:9000")]);
    assert!(message.contains("SKILLBOX_S3_ENDPOINT is not supported by this build yet"), "{message}");
    resolve(&[], &[("SKILLBOX_REDIS_URL", "redis://x"), ("SKILLBOX_S3_REGION", "")], &[]).expect("harmless");
}

#[test]
fn secrets_are_neither_shown_nor_repeated() {
    let message = refusal(&[("SKILLBOX_BOOTSTRAP_KEY", "hush hush")]);
    assert!(!message.contains("hush"), "{message}");
    let environment =
        [("SKILLBOX_BOOTSTRAP_KEY", "hush"), ("SKILLBOX_DB_DSN", "postgres://ada:hush@db/x?password=hush")];
    let config = resolve(&[], &environment, &[]).expect("a configuration");
    let shown = serde_json::to_string(&effective(&config)).expect("JSON");
    assert!(!shown.contains("hush") && shown.contains("postgres://ada:********@db/x"), "{shown}");
}

#[test]
fn unknown_names_are_warned_about_or_refused() {
    let environment = [("SKILLBOX_PROT", "1"), ("SKILLBOX_API_KEY", "sk-a")];
    let config = resolve(&[], &environment, &[]).expect("a configuration");
    assert_eq!(config.unknown_variables, ["SKILLBOX_PROT"]);
    assert!(matches!(resolve(&[], &[], &[("prot", "1")]), Err(ConfigError::Bad { .. })));
}

#[test]
fn the_file_is_toml() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("skillbox.toml");
    let read = |text: &str| {
        std::fs::write(&path, text).expect("written");
        read_file(&path)
    };
    let values = read("api_port = 9000\nrequire = [\"seccomp\", \"landlock\"]\nmax_cpu = 1.5\n").expect("values");
    assert_eq!(values, map(&[("api_port", "9000"), ("require", "seccomp,landlock"), ("max_cpu", "1.5")]));
    for bad in ["api_port = ", "[server]\nport = 1\n"] {
        assert!(matches!(read(bad), Err(ConfigError::File { .. })), "{bad}");
    }
    assert!(read_file(&home.path().join("missing")).is_err());
}

#[test]
fn flags_are_made_from_the_table() {
    use clap::{Args as _, FromArgMatches as _};
    let command = Args::augment_args(clap::Command::new("serve"));
    let matches = command.try_get_matches_from(["serve", "--api-port", "9000", "--config", "/etc/s.toml"]);
    let args = Args::from_arg_matches(&matches.expect("flags")).expect("args");
    assert_eq!(args.values, map(&[("api_port", "9000")]));
    assert_eq!(args.config.as_deref(), Some(Path::new("/etc/s.toml")));
}
