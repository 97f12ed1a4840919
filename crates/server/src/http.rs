//! Requests and responses below the routes: connections, bodies, extractors, middleware, paging and
//! download links.
//!
//! Nothing here knows a resource: handlers in `routes` combine these parts.

pub(crate) mod body;
pub(crate) mod download;
pub(crate) mod extract;
pub(crate) mod links;
pub(crate) mod listen;
pub(crate) mod loopback;
pub(crate) mod middleware;
pub(crate) mod origin;
pub(crate) mod paging;
pub(crate) mod peer;
pub(crate) mod permit_body;
pub(crate) mod rejected_body;
pub(crate) mod request_id;
pub(crate) mod timestamp;
