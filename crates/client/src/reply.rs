//! Answers: the typed value together with the exact JSON the server sent.

use std::ops::Deref;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use url::Url;

use crate::ClientError;
use crate::error::without_query;

/// One document. `raw` is what `-o json` prints, so that keys this client does not know are not
/// lost.
#[derive(Debug, Clone)]
pub struct Reply<T> {
    pub value: T,
    pub raw: String,
    /// The HTTP status: it tells 200 from 201 and 202.
    pub http_status: u16,
}

impl<T> Deref for Reply<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// One page of a list.
#[derive(Debug)]
pub struct Listing<T> {
    pub items: Vec<T>,
    pub raw: Vec<Box<RawValue>>,
    /// The cursor of the next page.
    pub next: Option<String>,
}

/// Which part of a list to fetch; the default is the server's first page.
#[derive(Debug, Clone, Default)]
pub struct PageSelector {
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

impl PageSelector {
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        let cursor = self.cursor.clone().map(|cursor| ("cursor", cursor));
        limit.into_iter().chain(cursor).collect()
    }
}

impl<T: DeserializeOwned> Reply<T> {
    pub(crate) fn parse(url: &Url, http_status: u16, body: &[u8]) -> Result<Self, ClientError> {
        let value = serde_json::from_slice(body).map_err(|error| invalid(url, &error))?;
        Ok(Self { value, raw: String::from_utf8_lossy(body).trim_end().to_owned(), http_status })
    }
}

impl<T: DeserializeOwned> Listing<T> {
    pub(crate) fn parse(url: &Url, link: Option<&str>, body: &[u8]) -> Result<Self, ClientError> {
        let raw: Vec<Box<RawValue>> =
            serde_json::from_slice(body).map_err(|error| invalid(url, &error))?;
        let items = raw.iter().map(|row| serde_json::from_str(row.get())).collect::<Result<_, _>>();
        let items = items.map_err(|error| invalid(url, &error))?;
        Ok(Self { items, raw, next: link.and_then(|link| next_cursor(url, link)) })
    }
}

fn invalid(url: &Url, error: &serde_json::Error) -> ClientError {
    ClientError::InvalidResponse { url: without_query(url), cause: error.to_string() }
}

/// The `cursor` of the `rel="next"` target in a `Link` header.
fn next_cursor(base: &Url, link: &str) -> Option<String> {
    let next =
        link.split(',').find(|part| part.contains("rel=\"next\"") || part.contains("rel=next"))?;
    let target = next.split_once('<')?.1.split_once('>')?.0;
    let url = base.join(target).ok()?;
    url.query_pairs().find(|(key, _)| key == "cursor").map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        Url::parse("http://localhost:8080/v1/skills").expect("a URL")
    }

    #[test]
    fn the_next_cursor_is_read_from_absolute_and_relative_links() {
        for link in [
            r#"<http://localhost:8080/v1/skills?limit=2&cursor=a%2Bb>; rel="next""#,
            r#"</v1/skills?cursor=a%2Bb&limit=2>; rel="next""#,
            r#"</v1/skills?cursor=zz>; rel="prev", </v1/skills?cursor=a%2Bb>; rel="next""#,
        ] {
            assert_eq!(next_cursor(&base(), link).as_deref(), Some("a+b"), "{link}");
        }
        assert_eq!(next_cursor(&base(), r#"</v1/skills?cursor=x>; rel="prev""#), None);
        assert_eq!(next_cursor(&base(), "garbage rel=\"next\""), None);
    }

    #[test]
    fn a_listing_keeps_rows_as_sent() {
        let body = br#"[{"name":"a","later":1},{"name":"b"}]"#;
        let listing: Listing<serde_json::Value> =
            Listing::parse(&base(), None, body).expect("a list");
        assert_eq!(listing.items.len(), 2);
        assert_eq!(listing.raw[0].get(), r#"{"name":"a","later":1}"#);
    }

    #[test]
    fn a_wrong_shape_is_an_invalid_response() {
        let error =
            Reply::<Vec<String>>::parse(&base(), 200, b"{}").expect_err("an object is not a list");
        assert!(matches!(error, ClientError::InvalidResponse { .. }), "{error}");
    }
}
