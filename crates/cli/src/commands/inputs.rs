//! Flags for the inputs of a script, with and without a server.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::value::RawValue;

use crate::input;

#[derive(Args)]
pub(super) struct ScriptInputs {
    /// Input document: JSON, @FILE, or - for standard input.
    #[arg(long, short = 'i', value_name = "JSON|@FILE|-")]
    input: Option<String>,
    /// Working directory of the script.
    #[arg(long, value_enum)]
    pub cwd: Option<CwdArg>,
    /// Standard input of the script: text, @FILE, or -.
    #[arg(long, value_name = "TEXT|@FILE|-")]
    stdin: Option<String>,
    /// Environment variable for the script. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = input::assignment)]
    pub env: Vec<(String, String)>,
    /// Timeout, such as 30s. It can only shorten the skill's own timeout.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum CwdArg {
    Sandbox,
    Skill,
    Workspace,
}

impl CwdArg {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            CwdArg::Sandbox => "sandbox",
            CwdArg::Skill => "skill",
            CwdArg::Workspace => "workspace",
        }
    }
}

impl ScriptInputs {
    /// Fails on contradicting flags. Call it before standard input is read.
    pub(super) fn check(&self) -> Result<()> {
        if self.input.as_deref() == Some("-") && self.stdin.as_deref() == Some("-") {
            bail!("standard input can be read only once; give --input or --stdin as a file");
        }
        Ok(())
    }

    pub(super) fn input(&self) -> Result<Option<Box<RawValue>>> {
        self.input.as_deref().map(input::read_json).transpose()
    }

    pub(super) fn stdin(&self) -> Result<Option<String>> {
        self.stdin.as_deref().map(input::read).transpose()
    }

    /// The request of a run without a server. Its skill name is empty: the directory determines the
    /// skill.
    pub(super) fn to_request(
        &self,
        script: Option<String>,
        args: &[String],
        memory: Option<&str>,
    ) -> Result<runner::Request> {
        self.check()?;
        let mut request = runner::Request::new("");
        request.input = self.input()?;
        request.env = self.env.iter().cloned().collect();
        request.script = script;
        request.args = args.to_vec();
        request.stdin = self.stdin()?;
        request.cwd = self.cwd.map(|cwd| match cwd {
            CwdArg::Sandbox => runner::Cwd::Sandbox,
            CwdArg::Skill => runner::Cwd::Skill,
            CwdArg::Workspace => runner::Cwd::Workspace,
        });
        request.timeout_ms = self.timeout.as_deref().map(skill::parse_duration).transpose()?;
        request.limits.memory_bytes = memory.map(skill::parse_memory).transpose()?;
        Ok(request)
    }
}
