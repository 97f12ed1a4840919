//! The head of a request: what is asked, or why it is not even read further.

use http::header::{self, HeaderMap};
use http::{Version, request};

use crate::query::Query;
use crate::refusal::{Checked, forbidden, malformed};
use crate::routes::{self, Action, Route};

/// A request that the table of routes knows and that has nothing odd about it.
#[derive(Debug)]
pub struct Asked {
    pub route: &'static Route,
    /// `/v1.NN` or nothing.
    pub version: String,
    /// What stood in the path for the route's `{…}`.
    pub name: String,
    pub query: Query,
}

impl Asked {
    pub fn read(head: &request::Parts) -> Checked<Asked> {
        if head.version != Version::HTTP_11 {
            return malformed("it is not HTTP/1.1");
        }
        if head.uri.scheme().is_some() || head.uri.authority().is_some() {
            return malformed("its path names a host");
        }
        let found = routes::find(&head.method, head.uri.path())?;
        let query = Query::read(head.uri.query().unwrap_or_default(), found.route.query)?;
        headers(&head.headers, found.route.action)?;
        Ok(Asked {
            route: found.route,
            version: found.version.to_owned(),
            name: found.name.to_owned(),
            query,
        })
    }
}

fn headers(headers: &HeaderMap, action: Action) -> Checked {
    // Whoever sends both a length and this wants two readers to disagree about the body. A launcher
    // sends lengths.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return malformed("its body has no length");
    }
    if headers.contains_key(header::EXPECT) || headers.contains_key(header::CONTENT_ENCODING) {
        return malformed("it expects or encodes something");
    }
    // A web page in a browser on this machine, which can reach loopback and should not.
    if headers.contains_key(header::ORIGIN) {
        return forbidden("a request made by a web page");
    }
    upgrade(headers, action)
}

fn upgrade(headers: &HeaderMap, action: Action) -> Checked {
    let mut protocols = headers.get_all(header::UPGRADE).iter();
    match (action, protocols.next(), protocols.next()) {
        (Action::AttachContainer, Some(protocol), None)
            if protocol.as_bytes().eq_ignore_ascii_case(b"tcp") =>
        {
            Ok(())
        }
        (Action::AttachContainer, ..) => malformed("an attach needs `Upgrade: tcp`"),
        (_, None, _) => Ok(()),
        (_, Some(_), _) => malformed("it wants to upgrade where there is nothing to upgrade"),
    }
}
