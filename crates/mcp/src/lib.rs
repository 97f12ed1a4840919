//! Skills as tools and resources of the Model Context Protocol.
//!
//! Owns what an agent's program sees: the tools, the `skill://` resources, the skills extension,
//! and the two transports (standard streams and streamable HTTP). It must not know where skills
//! come from or how they run: that is behind [`Skills`], which has one implementation for a
//! directory, one for a server elsewhere and one inside a server. It is the only crate with the
//! protocol's SDK, and knows no routes and no keys.

mod arguments;
mod connection;
mod extension;
mod handler;
mod http;
mod resources;
mod results;
mod skills;
mod stdio;
mod tools;
mod uri;

pub use connection::Offer;
pub use http::{Answer, Caller, Http, HttpConfig, Refused, SessionLimits};
pub use skills::{
    Artifact, Contents, Ended, FileEntry, Listed, Page, Progress, Refusal, Run, Skill, Skills,
    file_of, frontmatter,
};
pub use stdio::{serve, serve_stdio};
