//! Reads request bodies: limited in size and time, and only of the declared type.

use std::fmt;
use std::marker::PhantomData;

use admission::Permit;
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use store::TenantId;

use crate::app::{App, SharedApp};
use crate::error::{ApiError, Slug};

/// A JSON body together with its bytes.
pub(crate) struct Json<T> {
    pub value: T,
    /// The bytes as they were sent; idempotency compares their hash.
    pub bytes: Bytes,
    /// For both, and for the copies that are made on the way to the response.
    #[expect(dead_code, reason = "held for as long as the body is")]
    permit: Permit,
}

/// A document exists as sent, as parsed, as stored and as part of the response.
const JSON_COPIES: u64 = 4;

impl<T: DeserializeOwned> FromRequest<SharedApp> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, ApiError> {
        refuse_encoding(request.headers())?;
        if !is_json(media_type(request.headers())) {
            return Err(unsupported("Send the body as application/json."));
        }
        let limit = app.limits.body_bytes;
        let mut permit = reserve(app, &request, limit, JSON_COPIES).await?;
        let bytes = with_body_timeout(app, read(request.into_body(), limit)).await??;
        permit.shrink_to(bytes.len() as u64 * JSON_COPIES);
        let JsonObject(value) = serde_json::from_slice(&bytes).map_err(|error| {
            ApiError::bad_request(format!(
                "The body does not match the schema of this route: {error}."
            ))
        })?;
        Ok(Json { value, bytes, permit })
    }
}

/// A value that is written as a JSON object. A derived `Deserialize` alone would also accept an array
/// of the fields, and its error messages would contain the name of our type.
pub(crate) struct JsonObject<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
                text.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        from.deserialize_map(Fields(PhantomData)).map(JsonObject)
    }
}

/// Reserves memory for a body that will be read whole, and for that many copies of it. A body of
/// unknown length counts as the limit. Waits before anything is read, so that a refused client has
/// not sent its body for nothing.
pub(crate) fn reserve<'a>(
    app: &'a App,
    request: &Request,
    limit: usize,
    copies: u64,
) -> impl Future<Output = Result<Permit, ApiError>> + Send + use<'a> {
    // A body is not `Sync`, so its length is read before the future, which must be `Send`, is made.
    let measured = measure(request, limit);
    async move {
        let (tenant, length) = measured?;
        Ok(app.memory.reserve(&tenant, length.saturating_mul(copies)).await?)
    }
}

fn measure(request: &Request, limit: usize) -> Result<(TenantId, u64), ApiError> {
    refuse_length(request.body(), limit)?;
    let tenant = request.extensions().get::<TenantId>().cloned();
    let tenant = tenant
        .ok_or_else(|| ApiError::internal("a body is read before its caller is authenticated"))?;
    Ok((tenant, request.body().size_hint().exact().unwrap_or(limit as u64)))
}

/// Reads a whole body of at most `limit` bytes.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    refuse_length(&body, limit)?;
    let collected = Limited::new(body, limit).collect().await;
    collected.map(|body| body.to_bytes()).map_err(|error| {
        if error.is::<LengthLimitError>() {
            too_large(limit)
        } else {
            ApiError::bad_request("The body ended before it was complete.")
        }
    })
}

/// Refuses a body whose declared length exceeds the limit: a client that waits for `100 Continue`
/// then never sends it.
pub(crate) fn refuse_length(body: &Body, limit: usize) -> Result<(), ApiError> {
    match body.size_hint().lower() > limit as u64 {
        true => Err(too_large(limit)),
        false => Ok(()),
    }
}

/// Limits the time in which a body has to arrive.
pub(crate) async fn with_body_timeout<T>(
    app: &App,
    reading: impl Future<Output = T>,
) -> Result<T, ApiError> {
    tokio::time::timeout(app.limits.body_timeout, reading).await.map_err(|_| timed_out())
}

pub(crate) fn timed_out() -> ApiError {
    ApiError::new(Slug::RequestTimeout, "The body did not arrive in time.")
}

/// The declared type without parameters, in lower case; empty when there is none.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// Compressed bodies are refused: a small one can decompress to a very large one.
pub(crate) fn refuse_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            Err(unsupported("Send the body without a content encoding."))
        }
        _ => Ok(()),
    }
}

pub(crate) fn unsupported(message: &str) -> ApiError {
    ApiError::new(Slug::UnsupportedMediaType, message)
}

pub(crate) fn too_large(limit: usize) -> ApiError {
    ApiError::new(Slug::TooLarge, format!("The body is larger than {limit} bytes."))
}

fn is_json(essence: String) -> bool {
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}
