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
    mut detail: Value,
) -> Result<(), ApiError> {
    // A token has no row that could be pointed to, so its subject is written down.
    if let (Some(subject), Value::Object(detail)) = (caller.identity.subject(), &mut detail) {
        detail.insert("subject".into(), subject.into());
    }
    let entry = NewAudit {
        actor: caller.identity.key_id(),
        action: action.to_owned(),
        object: object.into(),
        detail,
        request_id: caller.request_id.clone(),
    };
    Ok(app.store.append_audit(&caller.tenant, &entry).await?)
}
