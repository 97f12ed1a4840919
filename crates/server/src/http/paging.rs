//! Pages of lists: `limit`, `offset` and an opaque `cursor`; the response is a plain array, with the
//! next page in a `Link` header.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64URL_NOPAD;
use http::header;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use store::{PageRequest, TenantId};
use subtle::ConstantTimeEq;
use utoipa::IntoParams;

use crate::app::SharedApp;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::http::origin::Origin;
use crate::secrets::mac;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 200;
const MAC_LENGTH: usize = 16;

/// Which part of a list to return.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Rows to return, 1 to 200; a larger number is lowered to 200.
    #[param(default = 50, minimum = 1)]
    limit: Option<i64>,
    /// Where the previous page ended, from its `Link` header.
    cursor: Option<String>,
    /// Rows to skip, for clients without cursors.
    #[param(default = 0, minimum = 0)]
    offset: Option<i64>,
}

/// Signs cursors, so that a cursor is only valid for the tenant and the list that it was made for.
pub(crate) struct Cursors {
    key: [u8; 32],
}

impl Cursors {
    pub(crate) fn new(key: [u8; 32]) -> Cursors {
        Cursors { key }
    }

    pub(crate) fn sign(&self, tenant: &TenantId, path: &str, after: &str) -> String {
        let mut token = self.mac(tenant, path, after.as_bytes()).to_vec();
        token.extend_from_slice(after.as_bytes());
        BASE64URL_NOPAD.encode(&token)
    }

    pub(crate) fn verify(&self, tenant: &TenantId, path: &str, token: &str) -> Option<String> {
        let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).ok()?;
        let (mac, after) = bytes.split_at_checked(MAC_LENGTH)?;
        let authentic = bool::from(self.mac(tenant, path, after).ct_eq(mac));
        authentic.then(|| String::from_utf8(after.to_vec()).ok())?
    }

    fn mac(&self, tenant: &TenantId, path: &str, after: &[u8]) -> [u8; MAC_LENGTH] {
        let parts = [tenant.as_str().as_bytes(), b"\0", path.as_bytes(), b"\0", after];
        let mut short = [0; MAC_LENGTH];
        short.copy_from_slice(&mac(&self.key, &parts)[..MAC_LENGTH]);
        short
    }
}

/// The requested page, and what is needed for the URL of the next one.
pub(crate) struct Paging {
    query: PageQuery,
    path: String,
    /// The other query values, which the URL of the next page repeats.
    filters: Vec<(String, String)>,
    origin: Origin,
    app: SharedApp,
}

impl FromRequestParts<SharedApp> for Paging {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        let Query(query) = Query::<PageQuery>::from_request_parts(parts, app).await?;
        if query.limit.is_some_and(|limit| limit < 1) {
            return Err(ApiError::bad_request("limit must be at least 1."));
        }
        if query.offset.is_some_and(|offset| offset < 0) {
            return Err(ApiError::bad_request("offset must not be negative."));
        }
        let Query(mut filters) =
            Query::<Vec<(String, String)>>::from_request_parts(parts, app).await?;
        filters.retain(|(name, _)| name != "cursor" && name != "offset");
        let path = parts.uri.path().to_owned();
        let origin = Origin::from_request_parts(parts, app).await?;
        Ok(Paging { query, path, filters, origin, app: app.clone() })
    }
}

impl Paging {
    fn limit(&self) -> i64 {
        self.query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT)
    }

    /// The request to the store: one row more than the page, to know whether another page follows.
    pub(crate) fn page(&self, tenant: &TenantId) -> Result<PageRequest, ApiError> {
        let cursor = self.query.cursor.as_deref().filter(|cursor| !cursor.is_empty());
        let verify = |token| {
            let invalid = || ApiError::bad_request("The cursor is not from this list.");
            self.app.cursors.verify(tenant, &self.path, token).ok_or_else(invalid)
        };
        Ok(PageRequest {
            limit: self.limit() + 1,
            offset: self.query.offset.unwrap_or(0),
            after: cursor.map(verify).transpose()?,
        })
    }

    /// The response: at most a page of rows, and the URL of the next page when there is one.
    pub(crate) fn respond<R, T: Serialize>(
        self,
        tenant: &TenantId,
        mut rows: Vec<R>,
        cursor: impl Fn(&R) -> String,
        view: impl Fn(R) -> Option<T>,
    ) -> Response {
        let limit = usize::try_from(self.limit()).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let after = rows.last().filter(|_| more).map(cursor);
        let body: Vec<T> = rows.into_iter().filter_map(view).collect();
        let mut response = axum::Json(body).into_response();
        if let Some(link) = after.and_then(|after| self.next_link(tenant, &after).parse().ok()) {
            response.headers_mut().insert(header::LINK, link);
        }
        response
    }

    fn next_link(&self, tenant: &TenantId, after: &str) -> String {
        let cursor = self.app.cursors.sign(tenant, &self.path, after);
        let mut query = String::new();
        for (name, value) in &self.filters {
            query.push_str(&format!("{}={}&", encode(name), encode(value)));
        }
        format!("<{}{}?{query}cursor={cursor}>; rel=\"next\"", self.origin.0, self.path)
    }
}

fn encode(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_only_for_its_tenant_and_list() {
        let cursors = Cursors::new([7; 32]);
        let [mine, other] = ["mine", "other"].map(|id| TenantId::try_from(id).expect("a tenant"));
        let token = cursors.sign(&mine, "/v1/skills", "word-count");
        assert_eq!(cursors.verify(&mine, "/v1/skills", &token).as_deref(), Some("word-count"));
        assert_eq!(cursors.verify(&other, "/v1/skills", &token), None);
        assert_eq!(cursors.verify(&mine, "/v1/keys", &token), None);
        for garbage in ["", "AAAA", "***", &token[1..]] {
            assert_eq!(cursors.verify(&mine, "/v1/skills", garbage), None, "{garbage:?}");
        }
    }
}
