//! The head of a request: its route and parameters, or the reason it is rejected.

use http::header::{self, HeaderMap};
use http::{Version, request};

use crate::query::RequestQuery;
use crate::request_error::{RequestResult, forbidden, malformed};
use crate::routes::{self, Route, RouteAction};

/// The head of a request that matches a route and is unambiguous.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub route: &'static Route,
    /// `/v1.NN` or empty.
    pub version: String,
    /// The part of the path that matched the route's `{…}`.
    pub target: String,
    pub query: RequestQuery,
}

impl RequestHead {
    pub(crate) fn parse(parts: &request::Parts) -> RequestResult<RequestHead> {
        if parts.version != Version::HTTP_11 {
            return malformed("it is not HTTP/1.1");
        }
        // An absolute URI has a second host, which another reader may prefer to the Host header.
        if parts.uri.scheme().is_some() || parts.uri.authority().is_some() {
            return malformed("its path names a host");
        }
        let found = routes::find(&parts.method, parts.uri.path())?;
        let query = RequestQuery::parse(parts.uri.query().unwrap_or_default(), found.route.query)?;
        check_headers(&parts.headers, found.route.action)?;
        Ok(RequestHead {
            route: found.route,
            version: found.version.to_owned(),
            target: found.target.to_owned(),
            query,
        })
    }
}

fn check_headers(headers: &HeaderMap, action: RouteAction) -> RequestResult {
    // Request smuggling: with both a length and a transfer encoding, two readers can disagree
    // about where the body ends. Launchers send lengths.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return malformed("its body has no length");
    }
    if headers.contains_key(header::EXPECT) || headers.contains_key(header::CONTENT_ENCODING) {
        return malformed("it has an Expect or Content-Encoding header");
    }
    // A web page in a browser on this machine can reach loopback addresses, and must not use this
    // proxy.
    if headers.contains_key(header::ORIGIN) {
        return forbidden("a request made by a web page");
    }
    check_upgrade(headers, action)
}

fn check_upgrade(headers: &HeaderMap, action: RouteAction) -> RequestResult {
    let mut protocols = headers.get_all(header::UPGRADE).iter();
    match (action, protocols.next(), protocols.next()) {
        (RouteAction::AttachContainer, Some(protocol), None)
            if protocol.as_bytes().eq_ignore_ascii_case(b"tcp") =>
        {
            Ok(())
        }
        (RouteAction::AttachContainer, ..) => malformed("an attach needs `Upgrade: tcp`"),
        (_, None, _) => Ok(()),
        (_, Some(_), _) => malformed("this route has no upgrade"),
    }
}
