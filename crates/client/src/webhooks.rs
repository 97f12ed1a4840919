//! Webhooks: what receivers check signatures with.

use serde::Deserialize;

use crate::{Client, ClientError, Reply};

#[derive(Debug, Clone, Deserialize)]
pub struct WebhookSecret {
    /// `whsec_…`, as Standard Webhooks libraries take it.
    pub secret: String,
}

impl Client {
    pub async fn webhook_secret(&self) -> Result<Reply<WebhookSecret>, ClientError> {
        self.get(&["v1", "webhooks", "secret"]).await
    }
}
