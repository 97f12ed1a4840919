//! The connection: address, credentials, and the few ways a request is sent.
//!
//! It must not know any single route; those live with their resources.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LINK};
use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use url::{Host, Url};

use crate::{ClientError, Listing, Reply};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For calls that only read or write a row. Runs, uploads and downloads take as long as they take.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A refusal's body is a sentence; whatever is longer is not ours.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// A client of one server. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    headers: HeaderMap,
}

/// What a [`Client`] is made of.
#[derive(Clone, Debug, Default)]
pub struct ClientBuilder {
    key: Option<String>,
    tenant: Option<String>,
    user_agent: Option<String>,
}

impl ClientBuilder {
    /// The API key, sent as a bearer token.
    pub fn key(mut self, key: Option<String>) -> Self {
        self.key = key;
        self
    }

    /// The tenant to act for; only a service key may name another than its own.
    pub fn tenant(mut self, tenant: Option<String>) -> Self {
        self.tenant = tenant;
        self
    }

    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = Some(user_agent.into());
        self
    }

    pub fn build(self, server: &str) -> Result<Client, ClientError> {
        let base = base_url(server)?;
        let mut headers = HeaderMap::new();
        if let Some(key) = &self.key {
            let mut value = header("API key", &format!("Bearer {key}"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(tenant) = &self.tenant {
            headers.insert("x-tenant-id", header("tenant", tenant)?);
        }
        let builder = || {
            let http = reqwest::Client::builder()
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_keepalive(Duration::from_secs(30))
                .tcp_nodelay(true)
                // A redirected POST would silently become a GET, and a key should only go where it
                // was meant to.
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(self.user_agent.as_deref().unwrap_or("skillbox-client"));
            if is_loopback_url(&base) { http.no_proxy() } else { http }
        };
        let http = match builder().build() {
            // A machine without certificates can still talk to a server that needs none.
            Err(_) if base.scheme() == "http" => builder().tls_certs_only([]).build(),
            built => built,
        };
        let http = http.map_err(|error| ClientError::transport(&base, &error))?;
        Ok(Client { http, base, headers })
    }
}

impl Client {
    /// A client for `server` with a key and, for service keys, a tenant.
    pub fn new(
        server: &str,
        key: Option<String>,
        tenant: Option<String>,
    ) -> Result<Self, ClientError> {
        ClientBuilder::default().key(key).tenant(tenant).build(server)
    }

    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The server's address, with a trailing slash.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// The URL of a route; every segment is percent-encoded, so a name cannot reach another route.
    pub(crate) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    pub(crate) fn request(&self, method: Method, url: &Url) -> RequestBuilder {
        self.http.request(method, url.clone()).headers(self.headers.clone())
    }

    /// A request to a URL that carries its own permission: our key is not sent along.
    pub(crate) fn anonymous(&self, url: &Url) -> RequestBuilder {
        self.http.get(url.clone())
    }

    /// Sends and gives back only a success; everything else becomes an error.
    pub(crate) async fn send(
        &self,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| ClientError::transport(url, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refusal(response).await)
    }

    pub(crate) async fn reply<T: DeserializeOwned>(
        &self,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Reply<T>, ClientError> {
        let response = self.send(url, request).await?;
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(|error| ClientError::transport(url, &error))?;
        Reply::parse(url, status, &body)
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        segments: &[&str],
    ) -> Result<Reply<T>, ClientError> {
        let url = self.url(segments);
        self.reply(&url, self.request(Method::GET, &url).timeout(CALL_TIMEOUT)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        body: &impl serde::Serialize,
    ) -> Result<Reply<T>, ClientError> {
        let url = self.url(segments);
        self.reply(&url, self.request(Method::POST, &url).timeout(CALL_TIMEOUT).json(body)).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        body: &impl serde::Serialize,
    ) -> Result<Reply<T>, ClientError> {
        let url = self.url(segments);
        self.reply(&url, self.request(Method::PUT, &url).timeout(CALL_TIMEOUT).json(body)).await
    }

    pub(crate) async fn delete(&self, segments: &[&str]) -> Result<(), ClientError> {
        let url = self.url(segments);
        self.send(&url, self.request(Method::DELETE, &url).timeout(CALL_TIMEOUT)).await?;
        Ok(())
    }

    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &[(&str, String)],
    ) -> Result<Listing<T>, ClientError> {
        let url = self.url(segments);
        let request = self.request(Method::GET, &url).timeout(CALL_TIMEOUT).query(query);
        let response = self.send(&url, request).await?;
        let link =
            response.headers().get(LINK).and_then(|link| link.to_str().ok()).map(str::to_owned);
        let body = response.bytes().await.map_err(|error| ClientError::transport(&url, &error))?;
        Listing::parse(&url, link.as_deref(), &body)
    }
}

/// Reads a refusal without trusting its length.
async fn refusal(mut response: Response) -> ClientError {
    let status = response.status().as_u16();
    let request_id =
        response.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ERROR_BODY_BYTES {
            break;
        }
    }
    ClientError::from_error_response(status, request_id, &body)
}

/// `localhost:8080` is what people type, so a missing scheme means `http`.
fn base_url(server: &str) -> Result<Url, ClientError> {
    let text = server.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let invalid = || {
        ClientError::Invalid(format!(
            "`{server}` is not a server address; use one like http://localhost:8080"
        ))
    };
    let mut url = Url::parse(&text).map_err(|_| invalid())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(invalid());
    }
    url.set_query(None);
    url.set_fragment(None);
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

fn header(what: &str, value: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::from_str(value).map_err(|_| {
        ClientError::Invalid(format!(
            "the {what} contains characters that cannot be sent in a header"
        ))
    })
}

/// Whether the host of a URL is this machine. `server` and `docker-proxy` have copies of this rule:
/// this crate knows no other crate of ours.
pub fn is_loopback_url(url: &Url) -> bool {
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => is_loopback(address.into()),
        Some(Host::Ipv6(address)) => is_loopback(address.into()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_people_type_are_understood() {
        for (text, expected) in [
            ("http://localhost:8080", "http://localhost:8080/"),
            ("localhost:8080", "http://localhost:8080/"),
            ("https://box.example.com/skillbox", "https://box.example.com/skillbox/"),
            (" http://127.0.0.1:1/ ", "http://127.0.0.1:1/"),
        ] {
            assert_eq!(base_url(text).expect(text).as_str(), expected);
        }
        for text in ["", "ftp://host", "http://", "http://:80"] {
            assert!(matches!(base_url(text), Err(ClientError::Invalid(_))), "{text}");
        }
    }

    #[test]
    fn a_segment_cannot_reach_another_route() {
        let client = Client::new("http://h/prefix", None, None).expect("a client");
        let url = client.url(&["v1", "skills", "../keys?x#y", "a b"]);
        assert_eq!(url.as_str(), "http://h/prefix/v1/skills/..%2Fkeys%3Fx%23y/a%20b");
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_refused() {
        let error = Client::new("http://h", Some("sk-\n".into()), None)
            .expect_err("a newline cannot be sent");
        assert!(error.to_string().contains("API key"), "{error}");
    }
}
