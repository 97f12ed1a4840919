//! The table of all settings: name, default and meaning. Flags, environment variables, file keys, the
//! reference page and `skillbox config` are generated from it, so they cannot contradict each
//! other.

use language::Language;

/// Whether a setting is part of the public interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stability {
    /// Read and applied.
    Supported,
    /// Accepted and ignored.
    Reserved,
    /// Read and applied in debug builds, for our own tests; not documented.
    #[cfg_attr(
        not(debug_assertions),
        expect(dead_code, reason = "no setting of a release is hidden")
    )]
    Hidden,
}

/// One setting. `key` is its key in the file; the flag and the variable are derived from it.
pub(super) struct SettingSpec {
    pub key: &'static str,
    /// The default as written in a configuration file; empty when there is none.
    pub default: &'static str,
    /// Never printed, neither in `skillbox config` nor in an error.
    pub secret: bool,
    pub stability: Stability,
    pub help: &'static str,
}

impl SettingSpec {
    /// The environment variable: `SKILLBOX_API_PORT`.
    pub(super) fn env(&self) -> String {
        format!("SKILLBOX_{}", self.key.to_uppercase())
    }

    /// The flag without its dashes: `api-port`.
    pub(super) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }
}

/// Finds a setting by its file key.
pub(super) fn find(key: &str) -> Option<&'static SettingSpec> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

const fn plain(key: &'static str, default: &'static str, help: &'static str) -> SettingSpec {
    SettingSpec { key, default, secret: false, stability: Stability::Supported, help }
}

const fn secret(key: &'static str, help: &'static str) -> SettingSpec {
    SettingSpec { key, default: "", secret: true, stability: Stability::Supported, help }
}

/// Every setting, in the order of the reference page.
pub(super) const SETTINGS: &[SettingSpec] = &[
    // Role.
    plain(
        "role",
        "all",
        "`all` serves the API and runs skills; `api` only serves the API, `worker` only runs queued executions (and serves `/health` and `/ready`). The last two need Postgres, S3 and `SKILLBOX_SECRET`.",
    ),
    // Storage.
    plain(
        "data_dir",
        "the user's data directory",
        "Directory of the embedded state: database, blobs, secret and first key. Created with mode 0700; one server at a time.",
    ),
    plain(
        "db_dsn",
        "sqlite in the data directory",
        "Metadata database: `sqlite:<path>` or `postgres://user:password@host/name`.",
    ),
    plain(
        "migrate_on_start",
        "true",
        "Whether a start migrates the database. With `false` the operator runs `skillbox migrate`, and the process waits for it: alive, not ready, and without the right to change the schema.",
    ),
    secret(
        "secret",
        "Master secret that keys, URLs and webhooks are derived from; at least 32 characters, the same for every process over one database. Without it, one is generated in the data directory.",
    ),
    plain(
        "s3_endpoint",
        "a directory in the data directory",
        "Object store for skills and artifacts, such as `https://s3.example.com` or `minio:9000`. Needs both keys.",
    ),
    secret("s3_access_key", "Access key of the object store."),
    secret("s3_secret_key", "Secret key of the object store."),
    plain(
        "s3_bucket_skills",
        "skills",
        "Bucket for skills; created at the start if it is missing.",
    ),
    plain(
        "s3_bucket_executions",
        "executions",
        "Bucket for artifacts; created at the start if it is missing.",
    ),
    plain("s3_region", "us-east-1", "Region that requests to the object store are signed for."),
    plain("s3_use_ssl", "true", "Whether an endpoint without a scheme is reached over TLS."),
    plain(
        "s3_public_url",
        "the endpoint",
        "Base of presigned download URLs, when callers reach the object store under another address.",
    ),
    plain(
        "retention_executions",
        "30d",
        "How long an ended execution is kept: `30d`, `12h`, or `forever`.",
    ),
    plain(
        "retention_logs",
        "as executions",
        "How long the logs of an ended execution are kept; not longer than the execution.",
    ),
    plain(
        "retention_artifacts",
        "as executions",
        "How long the files of an ended execution are kept; not longer than the execution.",
    ),
    // Network.
    plain(
        "bind",
        "127.0.0.1",
        "Address to listen on. Anything but loopback needs a key to exist already, or `SKILLBOX_BOOTSTRAP_KEY` of at least 16 characters.",
    ),
    plain("api_port", "8080", "Port of the API. 0 takes any free one."),
    plain(
        "public_url",
        "the host the caller used",
        "Base of the download URLs handed out, such as `https://skills.example.com`. Needed behind a TLS proxy. Its host and its pages may also call `/mcp`.",
    ),
    secret(
        "bootstrap_key",
        "This exact key exists after start, in tenant `default`, with every scope and the service flag. Without it the first start generates one, prints it once and stores it in the file `key` of the data directory. A key that was revoked stays revoked, and stops the start only if no other service key with `admin` is active.",
    ),
    // Tokens.
    secret(
        "jwt_secret",
        "Accept tokens (JWT) signed with this secret by HS256; at least 32 characters. One of this, `SKILLBOX_JWT_PUBLIC_KEY` and `SKILLBOX_JWT_JWKS_URL`.",
    ),
    plain(
        "jwt_public_key",
        "",
        "PEM file with the public key that verifies tokens: RSA for RS256, P-256 for ES256.",
    ),
    plain(
        "jwt_jwks_url",
        "",
        "URL of the identity provider's key set; `https://`, or `http://` on this machine. Fetched when needed, cached, and fetched again when a token names an unknown key.",
    ),
    plain("jwt_issuer", "", "Required with tokens: the value of `iss`."),
    plain("jwt_audience", "", "Required with tokens: the value that `aud` is or contains."),
    plain("jwt_tenant_claim", "tenant", "Claim that names the tenant, which must exist."),
    plain(
        "jwt_scopes_claim",
        "scope",
        "Claim with the scopes: a string separated by spaces, or a list. Unknown scopes are ignored; a token without scopes has none.",
    ),
    plain("jwt_leeway", "30s", "Tolerated clock difference; at most `5m`."),
    // Metrics.
    secret(
        "metrics_token",
        "Bearer token for `/metrics` only; at least 32 printable characters. Without it, `/metrics` requires a service key with the scope `admin`.",
    ),
    // Webhooks and receipts.
    plain(
        "webhook_private_hosts",
        "",
        "Hosts, separated by commas, that webhooks may reach although their addresses are private, and without TLS. All other webhooks go over `https://` to public addresses only.",
    ),
    plain("webhook_timeout", "10s", "Time a receiver has to answer a webhook."),
    plain(
        "receipt_key_generation",
        "1",
        "Which key signs receipts. Keys are derived from the secret; raise this by one, on every process, to change the key. The earlier public keys stay listed.",
    ),
    // Executions.
    plain("sandbox", "native", "Where skills run: `native`, `docker` or `kubernetes`."),
    plain(
        "docker_host",
        "tcp://localhost:2375",
        "The Docker engine, better behind `skillbox docker-proxy`: `unix:///path` or `tcp://host:port`.",
    ),
    plain(
        "docker_runtime",
        "the engine's default",
        "OCI runtime by name, such as `runc`, `runsc` (gVisor) or `kata`.",
    ),
    plain(
        "kube_namespace",
        "skillbox-sandboxes",
        "Namespace of the pods. It should contain nothing else.",
    ),
    plain(
        "kube_runtime_class",
        "the cluster's default",
        "RuntimeClass of the pods, such as `gvisor` or `kata`.",
    ),
    plain(
        "kube_guest_image",
        "",
        "Required with `kubernetes`: the image of this server itself, from which pods get their guest. The cluster is found as by `kubectl` (`KUBECONFIG`), else by the service account of the server's own pod.",
    ),
    plain(
        "kube_seccomp_profile",
        "the container runtime's default",
        "Seccomp profile on the nodes, below the kubelet's directory of them.",
    ),
    plain(
        "kube_user_namespaces",
        "false",
        "Whether pods get a user namespace of their own (`hostUsers: false`).",
    ),
    plain(
        "kube_schedule_timeout",
        "60s",
        "How long a pod may wait for quota and for a node with capacity. Then the execution is requeued.",
    ),
    plain(
        "image_python",
        Language::Python.spec().default_image,
        "Image that Python skills run in when they name none. Must be on `SKILLBOX_IMAGE_ALLOWLIST`, as the other two.",
    ),
    plain("image_node", Language::Node.spec().default_image, "Image of Node skills."),
    plain("image_bash", Language::Bash.spec().default_image, "Image of Bash skills."),
    plain(
        "require",
        "",
        "Required isolation controls, separated by commas, such as `seccomp,landlock,memory_limit`. If one is not in effect, the server does not start. `skillbox doctor` lists them.",
    ),
    plain(
        "image_allowlist",
        "python:3.12-slim,python:3.12,python:3.11-slim,node:20-slim,node:18-slim,bash:5",
        "Images that skills may name, separated by commas; a run of a skill that names another is refused. The native sandbox ignores images and uses the interpreters of the machine.",
    ),
    plain(
        "runtime_path",
        "the server's PATH",
        "Search path for the interpreters that skills run with.",
    ),
    plain("launchers", "one a core", "Launcher processes that clone sandboxes."),
    plain(
        "max_concurrent_execs",
        "two a core",
        "Executions that run at the same time; the others wait in the queue.",
    ),
    plain(
        "lease",
        "30s",
        "Time without a heartbeat after which an execution is taken from its worker.",
    ),
    plain("default_timeout", "120s", "Time limit of a run whose skill names none."),
    plain("max_timeout", "10m", "Highest time limit; a larger request is lowered to it."),
    plain("default_memory", "256Mi", "Memory of a run whose skill names none."),
    plain("max_memory", "1Gi", "Highest memory; a larger request is lowered to it."),
    plain("default_cpu", "0.5", "CPUs of a run whose skill names none."),
    plain("max_cpu", "4", "Highest CPUs; a larger request is lowered to it."),
    plain("max_output_size", "1048576", "Largest `output.json`, in bytes."),
    plain(
        "max_log_size",
        "1048576",
        "Logs kept of one run, in bytes; the rest is cut with a marker line.",
    ),
    plain("max_artifact_size", "104857600", "Sum of the files collected from one run, in bytes."),
    plain("max_artifact_files", "1000", "Number of files collected from one run."),
    plain("max_skill_size", "52428800", "Largest skill upload, in bytes."),
    plain("max_file_size", "104857600", "Largest file that can be uploaded, in bytes."),
    plain(
        "max_stored_bytes",
        "",
        "Total bytes that a tenant may store, unless its policy sets another limit: skills, files, artifacts and their archives, inputs, logs and outputs. Without it there is no limit.",
    ),
    plain(
        "min_free_disk",
        "256Mi",
        "Free space below which uploads, skills and runs are refused and `/ready` is 503, on the disk of `data_dir`. Ignored when database and blobs are in external services.",
    ),
    // Request limits.
    plain("max_body_size", "10485760", "Largest JSON request body, in bytes."),
    plain(
        "max_buffer_size",
        "two fifths of the process's memory limit",
        "Memory that requests and runs may buffer at once, in bytes: uploads, documents, lists, logs. One tenant alone gets half. A request that gets none within two seconds is refused (429 `too_busy`). Without a memory limit, a quarter of the machine's memory is the base; the default is at most 2 GiB.",
    ),
    plain("max_connections", "2048", "Open connections; further ones wait to be accepted."),
    plain(
        "max_connections_per_peer",
        "a quarter of max_connections",
        "Open connections from one address (IPv6: one /64 network); further ones are refused. Trusted proxies are not counted.",
    ),
    plain(
        "trusted_proxies",
        "",
        "Addresses and networks of the proxies in front of the server, separated by commas, such as `10.0.0.5,10.1.0.0/16`. Their connections are not counted by address, and clients are identified by the `X-Forwarded-For` they send. Never list an address from which callers connect directly.",
    ),
    plain(
        "max_auth_failures",
        "60",
        "Failed authentications a minute from one client address. Then only keys that this process has authenticated before, and valid tokens, are accepted from there; other requests get 429 `rate_limited`.",
    ),
    plain(
        "header_timeout",
        "30s",
        "Time a client has to send a request's headers. A connection without a request is closed after it, over HTTP/1 and HTTP/2.",
    ),
    plain("body_timeout", "120s", "Time a client has to send a request's body."),
    plain(
        "write_timeout",
        "60s",
        "Time a client may leave a response unread. Then its connection is closed, or over HTTP/2 the stream of that response is reset.",
    ),
    plain("url_ttl", "1h", "How long a download URL stays valid."),
    plain("drain_timeout", "30s", "Time running executions get to finish after SIGTERM."),
    // Logging.
    plain(
        "log_level",
        "info",
        "`error`, `warn`, `info`, `debug`, `trace`, or directives such as `runner=debug,info`.",
    ),
    plain("log_format", "text", "`text` or `json`, on stderr."),
    // Reserved.
    SettingSpec {
        key: "redis_url",
        default: "",
        secret: true,
        stability: Stability::Reserved,
        help: "Reserved. Accepted and not used.",
    },
    #[cfg(debug_assertions)]
    SettingSpec {
        key: "failpoint",
        default: "",
        secret: false,
        stability: Stability::Hidden,
        help: "Where the process kills itself, in crash tests.",
    },
];
