//! Logging to stderr, as text or JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// The MCP library logs every message at `info`. The configured level comes after this directive, so
/// `rmcp=debug` in it overrides this.
const DEFAULT_DIRECTIVES: &str = "rmcp=error";

/// Starts logging for the process; a second call changes nothing.
pub fn start(config: &Config) {
    let filter = EnvFilter::new(format!("{DEFAULT_DIRECTIVES},{}", config.log_level));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A program that embeds the server may have set up its own logging, which is kept.
    let _ = match config.log_format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
