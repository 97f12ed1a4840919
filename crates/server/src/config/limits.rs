//! Limits that are not settings: no operator should have to change them. They are part of the
//! configuration so that a test can show what happens without them.

use std::time::Duration;

pub use crate::auth::token_bucket::Rate;

/// Limits on what a client may do with an HTTP/2 connection.
#[derive(Clone, Copy)]
pub struct Http2Limits {
    /// Headers of one request, all together. The number of CONTINUATION frames follows from it.
    pub max_header_bytes: u32,
    /// Requests that were reset before they were accepted.
    pub max_pending_resets: usize,
    /// Streams that were reset because of protocol errors of the client, in the lifetime of a
    /// connection.
    pub max_error_resets: usize,
    /// Requests that were reset while they were served.
    pub resets: Rate,
}

impl Default for Http2Limits {
    fn default() -> Http2Limits {
        Http2Limits {
            max_header_bytes: 64 << 10,
            max_pending_resets: 20,
            max_error_resets: 128,
            // A proxy forwards many clients over one connection, and some of them disconnect.
            resets: Rate { burst: 200, per_second: 20.0 },
        }
    }
}

/// How many sessions of the older MCP clients there may be. A session is a task and some buffers.
#[derive(Clone, Copy)]
pub struct McpSessionLimits {
    pub total: usize,
    pub of_tenant: usize,
    /// Of one key, or of one subject of tokens.
    pub of_identity: usize,
}

impl Default for McpSessionLimits {
    fn default() -> McpSessionLimits {
        McpSessionLimits { total: 1024, of_tenant: 128, of_identity: 64 }
    }
}

/// How long a result of `/ready` is reused.
pub(super) const READY_AGE: Duration = Duration::from_secs(1);
