//! The table of every setting: its name, default and meaning. Flags, environment variables, file keys, the reference
//! page and `skillbox config` are all made from it, so none of them can drift from the others.

/// Where a setting stands in this build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Read and obeyed.
    Supported,
    /// Accepted and not used; nothing may ever need it.
    Reserved,
    /// Part of a later release. Setting it stops the start, because ignoring it would be a silent lie.
    Later,
}

/// One setting. Its file key is `key`; the flag and the variable are spelled from it.
pub struct Setting {
    pub key: &'static str,
    /// The default as a person would write it; empty when there is none.
    pub default: &'static str,
    /// Never printed, neither in `skillbox config` nor in an error.
    pub secret: bool,
    pub standing: Standing,
    pub help: &'static str,
}

impl Setting {
    /// The environment variable: `SKILLBOX_API_PORT`.
    pub fn env(&self) -> String {
        format!("SKILLBOX_{}", self.key.to_uppercase())
    }

    /// The flag without its dashes: `api-port`.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }
}

/// Looks a setting up by its file key.
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

const fn plain(key: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { key, default, secret: false, standing: Standing::Supported, help }
}

const fn secret(key: &'static str, help: &'static str) -> Setting {
    Setting { key, default: "", secret: true, standing: Standing::Supported, help }
}

const fn later(key: &'static str, help: &'static str) -> Setting {
    Setting { key, default: "", secret: true, standing: Standing::Later, help }
}

/// Variables of the command line client that share our prefix and are none of the server's business.
pub const CLIENT_VARIABLES: &[&str] = &["SKILLBOX_SERVER_URL", "SKILLBOX_API_KEY", "SKILLBOX_TENANT_ID"];

/// Every setting, in the order of the reference page.
pub const SETTINGS: &[Setting] = &[
    // Where it keeps its state.
    plain(
        "data_dir",
        "the user's data directory",
        "Directory of the embedded state: database, blobs, secret and first key. Made with mode 0700; one server at a time.",
    ),
    plain(
        "db_dsn",
        "sqlite in the data directory",
        "Metadata database: `sqlite:<path>` or `postgres://user:password@host/name`.",
    ),
    // Where it listens.
    plain(
        "bind",
        "127.0.0.1",
        "Address to listen on. Anything but loopback needs a key to exist already, or `SKILLBOX_BOOTSTRAP_KEY`.",
    ),
    plain("api_port", "8080", "Port of the API. 0 takes any free one."),
    plain(
        "public_url",
        "the host the caller used",
        "Base of the download URLs handed out, such as `https://skills.example.com`. Needed behind a TLS proxy.",
    ),
    secret(
        "bootstrap_key",
        "This exact key exists after start, in tenant `default`, with every scope and the service flag. Without it the first start makes one, prints it once and keeps it in the file `key` of the data directory.",
    ),
    // How it runs skills.
    plain("sandbox", "native", "Where skills run. This build has `native`."),
    plain(
        "require",
        "",
        "Isolation controls that must hold, by comma, such as `seccomp,landlock,memory_limit`. If one is missing the server refuses to start. `skillbox doctor` lists them.",
    ),
    plain(
        "image_allowlist",
        "python:3.12-slim,python:3.12,python:3.11-slim,node:20-slim,node:18-slim,bash:5",
        "Images that skills may name, by comma; a run of a skill that names another is refused. The native sandbox has the machine's own interpreters, whatever the image.",
    ),
    plain("runtime_path", "the server's PATH", "Search path for the interpreters that skills run with."),
    plain("launchers", "one a core", "Launcher processes that clone sandboxes."),
    plain("max_concurrent_execs", "two a core", "Executions that run at the same time; the others wait in the queue."),
    plain("default_timeout", "120s", "Time limit of a run whose skill names none."),
    plain("max_timeout", "10m", "Highest time limit; a larger request is lowered to it."),
    plain("default_memory", "256Mi", "Memory of a run whose skill names none."),
    plain("max_memory", "1Gi", "Highest memory; a larger request is lowered to it."),
    plain("default_cpu", "0.5", "CPUs of a run whose skill names none."),
    plain("max_cpu", "4", "Highest CPUs; a larger request is lowered to it."),
    plain("max_output_size", "1048576", "Largest `output.json`, in bytes."),
    plain("max_log_size", "1048576", "Logs kept of one run, in bytes; the rest is cut with a marker line."),
    plain("max_artifact_size", "104857600", "Sum of the files collected from one run, in bytes."),
    plain("max_artifact_files", "1000", "Number of files collected from one run."),
    plain("max_skill_size", "52428800", "Largest skill upload, in bytes."),
    // How it treats its callers.
    plain("max_body_size", "10485760", "Largest JSON request body, in bytes."),
    plain("max_connections", "2048", "Open connections; further ones wait to be accepted."),
    plain("header_timeout", "30s", "Time a client has to send a request's headers, also on an idle connection."),
    plain("body_timeout", "120s", "Time a client has to send a request's body."),
    plain("write_timeout", "60s", "Time a client may leave a response unread before it is cut off."),
    plain("url_ttl", "1h", "How long a download URL stays valid."),
    plain("drain_timeout", "30s", "Time running executions get to finish after SIGTERM."),
    // What it says.
    plain("log_level", "info", "`error`, `warn`, `info`, `debug`, `trace`, or directives such as `runner=debug,info`."),
    plain("log_format", "text", "`text` or `json`, on stderr."),
    // Accepted, and nothing needs it.
    Setting {
        key: "redis_url",
        default: "",
        secret: true,
        standing: Standing::Reserved,
        help: "Reserved. Accepted and not used.",
    },
    // Later releases.
    later("s3_endpoint", "S3 storage of skills and artifacts."),
    later("s3_access_key", "S3 storage of skills and artifacts."),
    later("s3_secret_key", "S3 storage of skills and artifacts."),
    later("s3_bucket_skills", "S3 storage of skills and artifacts."),
    later("s3_bucket_executions", "S3 storage of skills and artifacts."),
    later("s3_region", "S3 storage of skills and artifacts."),
    later("s3_use_ssl", "S3 storage of skills and artifacts."),
    later("s3_public_url", "S3 storage of skills and artifacts."),
    later("docker_host", "The Docker sandbox."),
    later("docker_runtime", "The Docker sandbox."),
];
