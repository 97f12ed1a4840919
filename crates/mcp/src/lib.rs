//! Skills as tools and resources of the Model Context Protocol.
//!
//! Owns what an agent's program sees: the tools, the `skill://` resources, the skills extension,
//! and the two transports (standard streams and streamable HTTP). It must not know where skills
//! come from or how they run: that is behind [`SkillProvider`], which has one implementation for a
//! directory, one for a server elsewhere and one inside a server. It is the only crate with the
//! protocol's SDK, and knows no routes and no keys.

#![forbid(unsafe_code)]

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

pub use connection::ServedSkills;
pub use http::{
    McpCaller, McpEndpoint, McpEndpointConfig, McpResponse, SessionError, SessionLimits,
};
pub use skills::{
    FileContents, LoadedSkill, ProviderError, RunArtifact, RunProgress, RunResult, SkillFileInfo,
    SkillOverview, SkillPage, SkillProvider, SkillRunRequest, parse_frontmatter, read_package_file,
};
pub use stdio::{serve, serve_stdio};
