//! Responses with bytes of skills and their authors, such that a browser executes none of them.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// A response with an attachment of a known length.
pub(crate) fn attachment(
    file_name: &str,
    content_type: &str,
    size_bytes: u64,
    body: Body,
) -> Response {
    let mut headers = HeaderMap::new();
    let octets = HeaderValue::from_static("application/octet-stream");
    let content_type = HeaderValue::from_str(content_type).unwrap_or(octets);
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size_bytes));
    headers.insert(header::CONTENT_DISPOSITION, disposition(file_name));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    (headers, body).into_response()
}

/// `Content-Disposition` with an ASCII name for old clients and the exact one for all others.
fn disposition(path: &str) -> HeaderValue {
    let name = path.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "._- ".contains(c);
    let ascii: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let exact = utf8_percent_encode(name, NON_ALPHANUMERIC);
    let text = format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{exact}");
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_escape_from_the_header() {
        let value = |name| disposition(name).to_str().expect("ASCII").to_owned();
        assert_eq!(
            value("a/report.csv"),
            "attachment; filename=\"report.csv\"; filename*=UTF-8''report%2Ecsv"
        );
        assert_eq!(
            value("x\"; filename=evil\r\nSet-Cookie: a.html"),
            "attachment; filename=\"x__ filename_evil__Set-Cookie_ a.html\"; \
             filename*=UTF-8''x%22%3B%20filename%3Devil%0D%0ASet%2DCookie%3A%20a%2Ehtml"
        );
        assert_eq!(value("näme"), "attachment; filename=\"n_me\"; filename*=UTF-8''n%C3%A4me");
    }
}
