//! Small extractors whose rejections are our errors: path values, ids and queries.

use axum::extract::{FromRequestParts, Path as AxumPath, Query as AxumQuery};
use http::request::Parts;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::error::{ApiError, Slug};

/// The values in the path. A value that cannot be parsed names an object that does not exist.
pub(crate) struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let values = AxumPath::from_request_parts(parts, state).await;
        values.map(|AxumPath(values)| Path(values)).map_err(|_| {
            ApiError::new(Slug::NotFound, "The path does not decode to UTF-8, so it names nothing.")
        })
    }
}

/// The query. Unknown keys are ignored, unparsable values are a bad request.
pub(crate) struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = AxumQuery::try_from_uri(&parts.uri);
        query.map(|AxumQuery(query)| Query(query)).map_err(|error| {
            let text = error.body_text();
            let cause = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            ApiError::bad_request(format!("The query cannot be read: {cause}."))
        })
    }
}

/// An id from the path. A malformed one gets the same response as the id of a missing `object`.
pub(crate) fn parse_id(object: &str, text: &str) -> Result<Uuid, ApiError> {
    Uuid::try_parse(text).map_err(|_| ApiError::not_found(object, text))
}
