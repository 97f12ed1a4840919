//! A server to talk to, and the little skills it is given.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use server::ServeError;
use server::config::Config;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running server. It is stopped, with everything it started, when the test drops it or its
/// runtime ends.
pub(crate) struct Server {
    pub addr: SocketAddr,
    pub url: String,
    /// The first key: every scope and the service flag.
    pub key: String,
    pub http: reqwest::Client,
    pub data: PathBuf,
    pub stop: CancellationToken,
    pub task: JoinHandle<Result<(), ServeError>>,
    _home: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Server {
        Server::with(&[]).await
    }

    /// A server with some settings of its own.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Server {
        Server::with_config(settings, |_| {}).await
    }

    /// A server with limits that no setting changes.
    pub(crate) async fn with_config(
        settings: &[(&str, &str)],
        change: impl FnOnce(&mut Config),
    ) -> Server {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let mut config = config(&data, settings);
        change(&mut config);
        let (addr, key, stop, task) = launch_config(config).await.unwrap();
        let url = format!("http://{addr}");
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Server { addr, url, key: key.unwrap_or_default(), http, data, stop, task, _home: home }
    }

    /// A request with the first key.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.request_as(&self.key, method, path)
    }

    pub(crate) fn request_as(&self, key: &str, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(key)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, path).json(body)
    }

    /// Publishes a skill and demands success.
    pub(crate) async fn publish(&self, files: &[(&str, &str)]) -> Value {
        self.publish_as(&self.key, files).await
    }

    pub(crate) async fn publish_as(&self, key: &str, files: &[(&str, &str)]) -> Value {
        let request = self
            .request_as(key, Method::POST, "/v1/skills")
            .header("content-type", "application/zip");
        let answer = request.body(zip(files)).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
        answer.json().await.unwrap()
    }

    /// Publishes a Bash skill of one script.
    pub(crate) async fn publish_bash(&self, name: &str, script: &str) -> Value {
        self.publish(&[("SKILL.md", &manifest(name, "")), ("main.sh", script)]).await
    }

    /// Runs a skill and demands 200.
    pub(crate) async fn run(&self, body: Value) -> Value {
        let answer = self.post("/v1/executions", &body).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
        answer.json().await.unwrap()
    }

    /// Makes a key with the first one and returns its string and id.
    pub(crate) async fn key(&self, body: Value) -> (String, String) {
        let answer = self.post("/v1/keys", &body).send().await.unwrap();
        created_key(answer).await
    }

    /// Makes a tenant, and in it a key with every scope and without the service flag.
    pub(crate) async fn tenant(&self, id: &str) -> String {
        let answer = self.post("/v1/tenants", &json!({ "id": id })).send().await.unwrap();
        assert_eq!(answer.status(), 201);
        let body = json!({ "name": "all", "scopes": ["execute", "read", "publish", "admin"] });
        let answer = self.post("/v1/keys", &body).header("x-tenant-id", id).send().await.unwrap();
        created_key(answer).await.0
    }

    /// Stops the server and waits for its end.
    pub(crate) async fn shut_down(self) -> (TempDir, Result<(), ServeError>) {
        self.stop.cancel();
        (self._home, self.task.await.unwrap())
    }
}

async fn created_key(answer: Response) -> (String, String) {
    assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    let key: Value = answer.json().await.unwrap();
    (key["key"].as_str().unwrap().to_owned(), key["id"].as_str().unwrap().to_owned())
}

type Launched = (SocketAddr, Option<String>, CancellationToken, JoinHandle<Result<(), ServeError>>);

/// Starts a server over a data directory; the error is the server's own.
pub(crate) async fn launch(
    data: &std::path::Path,
    settings: &[(&str, &str)],
) -> Result<Launched, ServeError> {
    launch_config(config(data, settings)).await
}

async fn launch_config(config: Config) -> Result<Launched, ServeError> {
    let stop = CancellationToken::new();
    let (tell, told) = oneshot::channel();
    let ready = move |bound: server::Bound| drop(tell.send((bound.addr, bound.first_key)));
    let task = tokio::spawn(server::serve_until(config, ready, stop.clone()));
    match told.await {
        Ok((addr, key)) => Ok((addr, key, stop, task)),
        Err(_) => Err(task.await.unwrap().unwrap_err()),
    }
}

pub(crate) fn config(data: &std::path::Path, settings: &[(&str, &str)]) -> Config {
    let mut pairs = vec![
        ("data_dir", data.display().to_string()),
        ("api_port", "0".to_owned()),
        ("launchers", "1".to_owned()),
        ("max_concurrent_execs", "2".to_owned()),
    ];
    pairs.retain(|(key, _)| !settings.iter().any(|(given, _)| given == key));
    pairs.extend(settings.iter().map(|(key, value)| (*key, (*value).to_owned())));
    Config::from_pairs(pairs).unwrap()
}

/// A `SKILL.md` with a name and any further lines of frontmatter.
pub(crate) fn manifest(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: A skill for tests.\n{more}---\n# {name}\n\nDo it.\n")
}

/// A zip of these files.
pub(crate) fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, text) in files {
        zip.start_file(*path, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Demands this status and error, and returns the body.
#[track_caller]
pub(crate) fn refused(answer: Response, status: u16, slug: &str) -> impl Future<Output = Value> {
    let at = std::panic::Location::caller();
    async move {
        let code = answer.status().as_u16();
        assert!(answer.headers().contains_key("x-request-id"), "{at}: no request id");
        let text = answer.text().await.unwrap();
        let body: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{at}: not JSON: {code} {text}"));
        assert_eq!((code, body["error"].as_str()), (status, Some(slug)), "{at}: {text}");
        assert!(
            body["message"].as_str().is_some_and(|message| message.ends_with(['.', ')'])),
            "{at}: {text}"
        );
        body
    }
}

/// The keys of a JSON object in the order they were sent.
pub(crate) fn keys(body: &Value) -> Vec<&str> {
    body.as_object().unwrap().keys().map(String::as_str).collect()
}

/// What `look` finds, as soon as it finds something. For changes that nothing announces to a test;
/// the bound only keeps a broken build from hanging.
pub(crate) async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), found).await.expect("what was awaited never came")
}
