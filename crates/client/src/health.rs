//! `/health` and `/ready`: is the server there, and can it work.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::Deserialize;

use crate::client::CALL_TIMEOUT;
use crate::{Client, ClientError, Reply};

#[derive(Debug, Clone, Deserialize)]
pub struct Health {
    pub status: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Readiness {
    pub status: String,
    /// One line for each thing the server needs; `ok`, or what is wrong with it.
    #[serde(default)]
    pub checks: BTreeMap<String, String>,
}

impl Client {
    /// Is there a server at all.
    pub async fn health(&self) -> Result<Reply<Health>, ClientError> {
        self.get(&["health"]).await
    }

    /// Can it run skills. A server that is not ready answers 503 with the same document, which is
    /// an answer too.
    pub async fn ready(&self) -> Result<Reply<Readiness>, ClientError> {
        let url = self.url(&["ready"]);
        let request = self.request(Method::GET, &url).timeout(CALL_TIMEOUT);
        let response =
            request.send().await.map_err(|error| ClientError::transport(&url, &error))?;
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(|error| ClientError::transport(&url, &error))?;
        match status {
            200 | 503 => Reply::parse(&url, status, &body)
                .map_err(|_| ClientError::from_error_response(status, None, &body)),
            _ => Err(ClientError::from_error_response(status, None, &body)),
        }
    }
}
