//! API keys: made once, shown once, revoked.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Client, ClientError, Listing, PageSelector, Reply};

/// What a new key may do.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewApiKey {
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub service: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// A key as the server knows it. `key`, the secret itself, is only there in the answer that made
/// it.
#[derive(Debug, Clone, Deserialize)]
pub struct ApiKey {
    pub id: Uuid,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub prefix: String,
    #[serde(default)]
    pub scopes: Vec<String>,
    #[serde(default)]
    pub service: bool,
    pub skills: Option<Vec<String>>,
    pub tenant_id: Option<String>,
    pub expires_at: Option<String>,
    pub revoked_at: Option<String>,
    pub created_at: Option<String>,
    pub key: Option<String>,
}

impl Client {
    pub async fn create_key(&self, key: &NewApiKey) -> Result<Reply<ApiKey>, ClientError> {
        self.post(&["v1", "keys"], key).await
    }

    pub async fn keys(&self, page: &PageSelector) -> Result<Listing<ApiKey>, ClientError> {
        self.list(&["v1", "keys"], &page.query()).await
    }

    pub async fn revoke_key(&self, id: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "keys", id]).await
    }
}
