//! Receipts of executions, and the keys that sign them.

use serde::Deserialize;

use crate::{Client, ClientError, Reply};

/// A receipt. What counts is [`Reply::raw`], the document as the server sent it.
#[derive(Debug, Clone, Deserialize)]
pub struct Receipt {
    /// JSON text, exactly as it was signed.
    pub payload: String,
    /// A minisign signature over the payload.
    pub signature: String,
}

/// The keys that receipts are signed with.
#[derive(Debug, Clone, Deserialize)]
pub struct ReceiptKeys {
    #[serde(flatten)]
    pub current: ReceiptKey,
    #[serde(default)]
    pub previous: Vec<ReceiptKey>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct ReceiptKey {
    pub key_id: String,
    pub public_key: String,
}

impl Client {
    pub async fn execution_receipt(&self, id: &str) -> Result<Reply<Receipt>, ClientError> {
        self.get(&["v1", "executions", id, "receipt"]).await
    }

    pub async fn receipt_keys(&self) -> Result<Reply<ReceiptKeys>, ClientError> {
        self.get(&["v1", "receipts", "key"]).await
    }
}
