//! `/v1/webhooks/secret`: the secret that receivers verify webhook signatures with.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::SharedApp;
use crate::auth::{Admin, Allowed};

/// A tenant's secret for webhooks.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookSecret {
    /// In the format of Standard Webhooks libraries.
    #[schema(example = "whsec_…")]
    secret: String,
}

/// Read the webhook secret
///
/// One secret for all webhooks of a tenant; each tenant has its own.
#[utoipa::path(
    get, path = "/v1/webhooks/secret", tag = "administration", operation_id = "get_webhook_secret",
    responses((status = 200, body = WebhookSecret))
)]
pub(crate) async fn secret(
    caller: Allowed<Admin>,
    State(app): State<SharedApp>,
) -> axum::Json<WebhookSecret> {
    axum::Json(WebhookSecret { secret: app.signatures.secret(&caller.tenant) })
}
