//! The message to a receiver: a summary of the execution, signed with the secret of its tenant.
//!
//! The headers are those of Standard Webhooks, so that receivers can verify them with a library. The
//! summary contains no document, log or URL: a receiver that may read those has an API key.

use data_encoding::BASE64;
use serde::Serialize;
use store::{Execution, TenantId};

use crate::http::timestamp::rfc3339;
use crate::secrets::mac;

/// Signs messages with a secret per tenant.
pub(crate) struct WebhookSigner {
    key: [u8; 32],
}

/// The body.
#[derive(Serialize)]
struct WebhookPayload<'a> {
    r#type: &'static str,
    timestamp: String,
    data: EventData<'a>,
}

#[derive(Serialize)]
struct EventData<'a> {
    execution_id: String,
    skill_name: &'a str,
    skill_version: &'a str,
    tenant_id: &'a str,
    status: &'static str,
    outcome: Option<&'a str>,
    exit_code: Option<i32>,
    duration_ms: i64,
    error: Option<&'a str>,
    created_at: String,
    finished_at: Option<String>,
    attempt: i32,
}

/// One message, ready to be sent.
pub(crate) struct WebhookMessage {
    pub id: String,
    pub timestamp: String,
    pub signature: String,
    pub body: String,
}

impl WebhookSigner {
    pub(crate) fn new(key: [u8; 32]) -> WebhookSigner {
        WebhookSigner { key }
    }

    /// The secret with which the receivers of a tenant verify signatures.
    pub(crate) fn secret(&self, tenant: &TenantId) -> String {
        format!("whsec_{}", BASE64.encode(&self.tenant_key(tenant)))
    }

    /// The message about an execution, signed now, because receivers refuse old signatures.
    pub(crate) fn message(&self, execution: &Execution, now_unix: i64) -> WebhookMessage {
        let (id, timestamp) = (execution.id.to_string(), now_unix.to_string());
        let body = WebhookPayload {
            r#type: "execution.finished",
            timestamp: rfc3339(execution.finished_at.unwrap_or(execution.created_at)),
            data: EventData {
                execution_id: id.clone(),
                skill_name: &execution.skill_name,
                skill_version: &execution.skill_version,
                tenant_id: execution.tenant.as_str(),
                status: execution.status.as_str(),
                outcome: execution.outcome.as_deref(),
                exit_code: execution.exit_code,
                duration_ms: execution.duration_ms,
                error: execution.error.as_deref(),
                created_at: rfc3339(execution.created_at),
                finished_at: execution.finished_at.map(rfc3339),
                attempt: execution.attempt,
            },
        };
        let body = serde_json::to_string(&body).expect("the payload has only string keys");
        let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body.as_bytes()];
        let signature =
            format!("v1,{}", BASE64.encode(&mac(&self.tenant_key(&execution.tenant), &signed)));
        WebhookMessage { id, timestamp, signature, body }
    }

    fn tenant_key(&self, tenant: &TenantId) -> [u8; 32] {
        mac(&self.key, &[tenant.as_str().as_bytes()])
    }
}
