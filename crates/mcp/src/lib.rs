//! Skills as tools and resources of the Model Context Protocol.
//!
//! Owns the server side of the protocol: the tools, the `skill://` and `execution://` resources,
//! the skills extension, and the two transports (standard streams and streamable HTTP). It must not
//! know where skills come from or how they run: that is behind [`SkillProvider`], which has one
//! implementation for a directory, one for a remote server and one inside a server. It is the only
//! crate with the protocol's SDK, and knows no routes and no keys.

#![forbid(unsafe_code)]

mod arguments;
mod connection;
mod extension;
mod handler;
mod http;
mod package;
mod progress;
mod provider;
mod provider_error;
mod resources;
mod results;
mod skill_tools;
mod stdio;
mod tool_calls;
mod tools;
mod uri;

pub use connection::ServedSkills;
pub use http::{
    McpCaller, McpEndpoint, McpEndpointConfig, McpResponse, SessionError, SessionLimits,
};
pub use package::{parse_frontmatter, read_package_file};
pub use progress::RunProgress;
pub use provider::{
    FileContents, LoadedSkill, RunArtifact, RunResult, SkillFileInfo, SkillOverview, SkillPage,
    SkillProvider, SkillRunRequest,
};
pub use provider_error::ProviderError;
pub use stdio::{serve, serve_stdio};
