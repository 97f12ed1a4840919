use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn resolve(
    flags: &[(&str, &str)],
    environment: &[(&str, &str)],
    file: &[(&str, &str)],
) -> Result<Config, ConfigError> {
    let system = SystemInfo { home: Some("/home/ada".into()), ..SystemInfo::default() };
    Config::resolve(&map(flags), &map(environment), &map(file), system)
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
    assert_eq!(config.run_policy.default_timeout, Duration::from_secs(120));
    assert_eq!(
        (config.run_policy.default_cpu_millis, config.run_policy.max_memory_bytes),
        (500, 1 << 30)
    );
}

#[test]
fn every_language_has_an_image_setting_whose_default_is_allowed() {
    let config = resolve(&[], &[], &[]).expect("the defaults");
    for spec in language::Language::ALL.map(language::Language::spec) {
        let row = settings::find(spec.image_setting);
        let default = row.map(|setting| setting.default);
        assert_eq!(default, Some(spec.default_image), "add {} to SETTINGS", spec.image_setting);
        assert!(
            config.image_allowlist.iter().any(|allowed| allowed == spec.default_image),
            "add {} to the default of image_allowlist",
            spec.default_image
        );
    }
}

#[test]
fn a_flag_beats_the_environment_beats_the_file() {
    let port = |flags: &[_], environment: &[_], file: &[_]| {
        resolve(flags, environment, file).expect("a configuration").api_port
    };
    let (flag, environment, file) =
        (("api_port", "1"), ("SKILLBOX_API_PORT", "2"), ("api_port", "3"));
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
        ("SKILLBOX_SANDBOX", "kube"),
        ("SKILLBOX_KUBE_NAMESPACE", "Skill Box"),
        ("SKILLBOX_KUBE_RUNTIME_CLASS", "-gvisor"),
        ("SKILLBOX_KUBE_GUEST_IMAGE", "two words"),
        ("SKILLBOX_KUBE_SECCOMP_PROFILE", "../../etc/profile.json"),
        ("SKILLBOX_KUBE_USER_NAMESPACES", "perhaps"),
        ("SKILLBOX_KUBE_SCHEDULE_TIMEOUT", "0s"),
        ("SKILLBOX_ROLE", "boss"),
        ("SKILLBOX_RECEIPT_KEY_GENERATION", "0"),
        ("SKILLBOX_SECRET", "thirty-one characters are too f"),
        ("SKILLBOX_S3_ACCESS_KEY", "stray"),
        ("SKILLBOX_DOCKER_HOST", "localhost:2375"),
        ("SKILLBOX_DOCKER_HOST", "tcp://localhost"),
        ("SKILLBOX_DOCKER_HOST", "unix://docker.sock"),
        ("SKILLBOX_DOCKER_RUNTIME", "/bin/sh"),
        ("SKILLBOX_RETENTION_EXECUTIONS", "0d"),
        ("SKILLBOX_RETENTION_EXECUTIONS", "a while"),
        ("SKILLBOX_RETENTION_LOGS", "31d"),
        ("SKILLBOX_RETENTION_ARTIFACTS", "forever"),
        ("SKILLBOX_LEASE", "500ms"),
        ("SKILLBOX_JWT_SECRET", "short"),
        ("SKILLBOX_JWT_ISSUER", "https://id.example.com"),
        ("SKILLBOX_JWT_JWKS_URL", "http://id.example.com/keys"),
        ("SKILLBOX_WEBHOOK_PRIVATE_HOSTS", "hooks.internal,not a host"),
        ("SKILLBOX_WEBHOOK_TIMEOUT", "0s"),
        ("SKILLBOX_SANDBOX", "nativ"),
        ("SKILLBOX_REQUIRE", "seccomp,landlok"),
        ("SKILLBOX_MAX_CONNECTIONS_PER_PEER", "0"),
        ("SKILLBOX_TRUSTED_PROXIES", "10.0.0.0/33"),
        ("SKILLBOX_TRUSTED_PROXIES", "proxy.internal"),
        ("SKILLBOX_MAX_AUTH_FAILURES", "0"),
        ("SKILLBOX_MAX_STORED_BYTES", "0"),
        ("SKILLBOX_MIN_FREE_DISK", "some"),
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
    for setting in SETTINGS.iter().filter(|setting| setting.stability == Stability::Supported) {
        for empty in ["", "  "] {
            let message = refusal(&[(&setting.env(), empty)]);
            assert!(message.starts_with(&setting.env()), "{message}");
        }
    }
}

#[test]
fn reserved_settings_are_accepted() {
    resolve(&[], &[("SKILLBOX_REDIS_URL", "redis://x")], &[]).expect("harmless");
}

const S3_SETTINGS: [(&str, &str); 3] = [
    ("SKILLBOX_S3_ENDPOINT", "http://minio:9000"),
    ("SKILLBOX_S3_ACCESS_KEY", "a"),
    ("SKILLBOX_S3_SECRET_KEY", "b"),
];
const SECRET: (&str, &str) = ("SKILLBOX_SECRET", "0123456789abcdef0123456789abcdef");
const POSTGRES: (&str, &str) = ("SKILLBOX_DB_DSN", "postgres://db/x");

#[test]
fn a_part_of_the_service_shares_its_state() {
    for role in ["api", "worker"] {
        let role = ("SKILLBOX_ROLE", role);
        let whole = [&S3_SETTINGS[..], &[SECRET, POSTGRES, role]].concat();
        assert!(resolve(&[], &whole, &[]).expect("complete").is_stateless());
        for (left_out, named) in [
            ("SKILLBOX_DB_DSN", "SKILLBOX_DB_DSN"),
            ("SKILLBOX_SECRET", "SKILLBOX_SECRET"),
            ("SKILLBOX_S3_", "SKILLBOX_S3_ENDPOINT"),
        ] {
            let rest: Vec<_> =
                whole.iter().copied().filter(|(name, _)| !name.starts_with(left_out)).collect();
            let message = refusal(&rest);
            assert!(
                message.starts_with(named) && message.contains("SKILLBOX_ROLE"),
                "{left_out}: {message}"
            );
        }
        let mut sqlite = whole.clone();
        sqlite.retain(|pair| *pair != POSTGRES);
        sqlite.push(("SKILLBOX_DB_DSN", "sqlite:/tmp/x"));
        assert!(refusal(&sqlite).starts_with("SKILLBOX_DB_DSN"));
    }
}

#[test]
fn an_object_store_needs_its_keys_and_one_scheme() {
    let with = |more: &[(&'static str, &'static str)]| {
        let mut pairs = S3_SETTINGS.to_vec();
        pairs.retain(|(name, _)| !more.iter().any(|(given, _)| given == name));
        pairs.extend_from_slice(more);
        pairs
    };
    let endpoint =
        |pairs: &[_]| resolve(&[], pairs, &[]).expect("a store").s3.expect("S3").endpoint;
    assert_eq!(endpoint(&S3_SETTINGS), "http://minio:9000");
    assert_eq!(endpoint(&with(&[("SKILLBOX_S3_ENDPOINT", "minio:9000")])), "https://minio:9000");
    let plain = with(&[("SKILLBOX_S3_ENDPOINT", "minio:9000"), ("SKILLBOX_S3_USE_SSL", "false")]);
    assert_eq!(endpoint(&plain), "http://minio:9000");
    assert!(refusal(&with(&[("SKILLBOX_S3_USE_SSL", "true")])).starts_with("SKILLBOX_S3_USE_SSL"));
    assert!(
        refusal(&with(&[("SKILLBOX_S3_BUCKET_SKILLS", "No Bucket")]))
            .starts_with("SKILLBOX_S3_BUCKET_SKILLS")
    );
    assert!(
        refusal(&with(&[("SKILLBOX_S3_ENDPOINT", "ftp://minio")]))
            .starts_with("SKILLBOX_S3_ENDPOINT")
    );
    for missing in ["SKILLBOX_S3_ACCESS_KEY", "SKILLBOX_S3_SECRET_KEY"] {
        let rest: Vec<_> = S3_SETTINGS.into_iter().filter(|(name, _)| *name != missing).collect();
        assert!(refusal(&rest).starts_with(missing));
    }
}

#[test]
fn tokens_need_one_key_an_issuer_and_an_audience() {
    let secret = ("SKILLBOX_JWT_SECRET", "0123456789abcdef0123456789abcdef");
    let (issuer, audience) =
        (("SKILLBOX_JWT_ISSUER", "https://id"), ("SKILLBOX_JWT_AUDIENCE", "skillbox"));
    let config = resolve(&[], &[secret, issuer, audience], &[]).expect("complete");
    let jwt = config.jwt.expect("tokens");
    assert_eq!((jwt.tenant_claim.as_str(), jwt.scopes_claim.as_str()), ("tenant", "scope"));
    assert!(refusal(&[secret, issuer]).starts_with("SKILLBOX_JWT_AUDIENCE"));
    assert!(refusal(&[secret, audience]).starts_with("SKILLBOX_JWT_ISSUER"));
    let two = ("SKILLBOX_JWT_PUBLIC_KEY", "/etc/key.pem");
    assert!(refusal(&[secret, two, issuer, audience]).starts_with("SKILLBOX_JWT_PUBLIC_KEY"));
    let odd = ("SKILLBOX_JWT_TENANT_CLAIM", "aud");
    assert!(refusal(&[secret, issuer, audience, odd]).starts_with("SKILLBOX_JWT_TENANT_CLAIM"));
    for url in [
        "https://id.example.com/keys", "http://localhost:1/k", "http://127.0.0.1:1/k",
        "http://[::1]/k",
    ] {
        resolve(&[], &[("SKILLBOX_JWT_JWKS_URL", url), issuer, audience], &[]).expect(url);
    }
}

#[test]
fn the_images_of_containers_are_on_the_list() {
    let docker = ("SKILLBOX_SANDBOX", "docker");
    let config = resolve(&[], &[docker], &[]).expect("the defaults");
    assert!(
        matches!(config.sandbox, SandboxSettings::Docker(docker) if docker.host == "tcp://localhost:2375")
    );
    let mine = ("SKILLBOX_IMAGE_PYTHON", "mine:1");
    assert!(refusal(&[docker, mine]).starts_with("SKILLBOX_IMAGE_PYTHON"));
    let list = ("SKILLBOX_IMAGE_ALLOWLIST", "mine:1,node:20-slim,bash:5");
    resolve(&[], &[docker, mine, list], &[]).expect("listed");
    // The native sandbox has no images, so the list is free to hold anything.
    resolve(&[], &[("SKILLBOX_IMAGE_ALLOWLIST", "mine:1")], &[]).expect("native");
}

#[test]
fn a_cluster_needs_the_image_of_the_guest() {
    let kubernetes = ("SKILLBOX_SANDBOX", "kubernetes");
    assert!(refusal(&[kubernetes]).starts_with("SKILLBOX_KUBE_GUEST_IMAGE"));
    let image = ("SKILLBOX_KUBE_GUEST_IMAGE", "skillbox:0.1.0");
    let config = resolve(&[], &[kubernetes, image], &[]).expect("good");
    assert!(
        matches!(config.sandbox, SandboxSettings::Kubernetes(cluster) if cluster.namespace == "skillbox-sandboxes")
    );
    assert!(
        refusal(&[kubernetes, image, ("SKILLBOX_IMAGE_NODE", "mine:1")])
            .starts_with("SKILLBOX_IMAGE_NODE")
    );
}

#[test]
fn secrets_are_neither_shown_nor_repeated() {
    let message = refusal(&[("SKILLBOX_BOOTSTRAP_KEY", "hush hush")]);
    assert!(!message.contains("hush"), "{message}");
    let environment = [
        ("SKILLBOX_BOOTSTRAP_KEY", "hush"),
        ("SKILLBOX_SECRET", "hush-hush-hush-hush-hush-hush-hush"),
        ("SKILLBOX_DB_DSN", "postgres://ada:hush@db/x?password=hush"),
    ];
    let config = resolve(&[], &environment, &[]).expect("a configuration");
    let shown = serde_json::to_string(&effective(&config)).expect("JSON");
    assert!(!shown.contains("hush") && shown.contains("postgres://ada:********@db/x"), "{shown}");
}

#[test]
fn an_unknown_key_of_the_file_is_refused_with_the_closest_one() {
    let error = resolve(&[], &[], &[("api_prot", "1")]).err().expect("refused").to_string();
    assert!(error.starts_with("api_prot") && error.contains("`api_port`"), "{error}");
    resolve(&[], &[], &[("api_port", "1")]).expect("control: spelt well, it is taken");
}

#[test]
fn a_short_bootstrap_key_is_for_this_machine_alone() {
    let short = ("SKILLBOX_BOOTSTRAP_KEY", "fifteen-letters");
    for open in ["0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1"] {
        let message = refusal(&[short, ("SKILLBOX_BIND", open)]);
        assert!(
            message.starts_with("SKILLBOX_BOOTSTRAP_KEY") && message.contains("16"),
            "{message}"
        );
        assert!(!message.contains(short.1), "{message}");
        resolve(
            &[],
            &[("SKILLBOX_BOOTSTRAP_KEY", "sixteen-letters!"), ("SKILLBOX_BIND", open)],
            &[],
        )
        .expect(open);
    }
    for own in ["127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1"] {
        resolve(&[], &[short, ("SKILLBOX_BIND", own)], &[]).expect(own);
    }
}

#[test]
fn the_file_is_toml() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("skillbox.toml");
    let read = |text: &str| {
        std::fs::write(&path, text).expect("written");
        read_file(&path)
    };
    let values = read("api_port = 9000\nrequire = [\"seccomp\", \"landlock\"]\nmax_cpu = 1.5\n")
        .expect("values");
    assert_eq!(
        values,
        map(&[("api_port", "9000"), ("require", "seccomp,landlock"), ("max_cpu", "1.5")])
    );
    for bad in ["api_port = ", "[server]\nport = 1\n"] {
        assert!(matches!(read(bad), Err(ConfigError::File { .. })), "{bad}");
    }
    assert!(read_file(&home.path().join("missing")).is_err());
}

#[test]
fn flags_are_made_from_the_table() {
    use clap::{Args as _, FromArgMatches as _};
    let command = Args::augment_args(clap::Command::new("serve"));
    let matches =
        command.try_get_matches_from(["serve", "--api-port", "9000", "--config", "/etc/s.toml"]);
    let args = Args::from_arg_matches(&matches.expect("flags")).expect("args");
    assert_eq!(args.values, map(&[("api_port", "9000")]));
    assert_eq!(args.config.as_deref(), Some(Path::new("/etc/s.toml")));
}
