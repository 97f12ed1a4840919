//! Writing the audit trail: who changed what, under which request.

use serde_json::Value;
use store::NewAudit;

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// Adds one entry to the trail of the tenant acted in.
pub async fn record(
    app: &App,
    caller: &Caller,
    action: &str,
    object: impl Into<String>,
    detail: Value,
) -> Result<(), ApiError> {
    let entry = NewAudit {
        actor: Some(caller.key.id),
        action: action.to_owned(),
        object: object.into(),
        detail,
        request_id: caller.request_id.clone(),
    };
    Ok(app.store.append_audit(&caller.tenant, &entry).await?)
}
