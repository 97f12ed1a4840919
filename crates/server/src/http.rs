//! Requests and responses below the routes: connections, bodies, extractors, middleware, paging and
//! download links.
//!
//! Nothing here knows a resource: handlers in `routes` combine these parts.

pub mod body;
pub mod download;
pub mod extract;
pub mod links;
pub mod listen;
pub mod loopback;
pub mod middleware;
pub mod origin;
pub mod paging;
pub mod peer;
pub mod permit_body;
pub mod rejected_body;
pub mod request_id;
pub mod timestamp;
