//! An accepted request as a row of the store, and back.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use store::{Execution, Idempotency, InitialState, NewExecution};

use super::sealed_env::EnvError;
use super::{AcceptedRequest, Stop};
use crate::{EnvKey, Request};

/// Why a stored request cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoredRequestError {
    #[error("the stored request cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the stored env cannot be decrypted: {0}")]
    Env(#[from] EnvError),
}

/// What the caller learns about a row that cannot be run.
impl From<&StoredRequestError> for Stop {
    fn from(error: &StoredRequestError) -> Stop {
        Stop::lost(match error {
            StoredRequestError::Unreadable(_) => "The stored request could not be read.",
            StoredRequestError::Env(_) => {
                "The stored env could not be decrypted: the server's secret was changed, or the row was. Send the request again."
            }
        })
    }
}

impl AcceptedRequest {
    /// The row to insert.
    ///
    /// `env` holds secrets, so it is written only if another process may have to run the row. A
    /// row that is inserted as running is taken over only if its skill is idempotent, or if its
    /// process requeues it and writes the secrets then.
    pub(crate) fn to_row(
        &self,
        initial_state: InitialState,
        idempotency: Option<Idempotency>,
        key: &EnvKey,
    ) -> NewExecution {
        let env_key = (self.idempotent || !matches!(initial_state, InitialState::Running { .. }))
            .then_some(key);
        NewExecution {
            id: self.id,
            tenant: self.tenant.clone(),
            key_id: self.key_id,
            skill_name: self.skill_name.clone(),
            skill_version: self.skill_version.clone(),
            digest: self.digest.clone(),
            input: self.input().map(str::to_owned),
            request: self.to_stored_request(env_key),
            idempotency,
            idempotent: self.idempotent,
            awaited: false,
            webhook: self.request.webhook.clone(),
            initial_state,
        }
    }

    /// The request as JSON text, with `env` sealed by the key or without it. The input has a column
    /// of its own.
    pub(crate) fn to_stored_request(&self, env_key: Option<&EnvKey>) -> String {
        let plain = Request { input: None, env: BTreeMap::new(), ..self.request.clone() };
        let stored = match env_key.filter(|_| !self.request.env.is_empty()) {
            // A string in the place of a map: a server of an earlier version rejects the row
            // instead of running it without `env`.
            Some(key) => serde_json::to_value(&plain).map(|mut document| {
                document["env"] = key.seal(&self.tenant, self.id, &self.request.env).into();
                document.to_string()
            }),
            None => serde_json::to_string(&plain),
        };
        stored.expect("a request has only string keys")
    }

    /// The accepted request that a queued row holds. A row of an earlier version has its `env` in
    /// plain text.
    pub(crate) fn from_row(
        row: &Execution,
        key: &EnvKey,
    ) -> Result<AcceptedRequest, StoredRequestError> {
        let mut document: Value = serde_json::from_str(&row.request)?;
        if let Some(Value::String(sealed)) = document.get("env") {
            document["env"] = json!(key.open(&row.tenant, row.id, sealed)?);
        }
        let mut request: Request = serde_json::from_value(document)?;
        request.input = row.input.clone().map(RawValue::from_string).transpose()?;
        Ok(AcceptedRequest {
            id: row.id,
            tenant: row.tenant.clone(),
            key_id: row.key_id,
            skill_name: row.skill_name.clone(),
            skill_version: row.skill_version.clone(),
            digest: row.digest.clone(),
            request,
            // Not needed: the row itself says whether it may be requeued.
            idempotent: false,
            refusal: None,
            accepted_at: row.created_at,
        })
    }

    pub(crate) fn input(&self) -> Option<&str> {
        self.request.input.as_deref().map(RawValue::get)
    }
}
