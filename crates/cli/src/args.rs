//! The command line as a whole: the global flags and the list of commands.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    audit, audit_log, bench, completions, config, docker_proxy, doctor, exec, guest_copy, key,
    list, mcp, migrate, receipt, run, serve, skill, tenant, trust, webhook,
};

/// Runs AI agent skills, each in its own single-use sandbox.
#[derive(Parser)]
#[command(name = "skillbox", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Exit codes: a failed run gives the script's own code (124 on a timeout, 130 when cancelled, 1 if there is none); \
a failed call or a usage error gives 2.

To start: `skillbox run DIR` runs a skill on this machine without a server. Or `skillbox serve` in one terminal, then \
`skillbox skill push DIR` and `skillbox run NAME` in another.";

/// Flags that every command takes.
#[derive(Args, Clone)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Address of the server.
    #[arg(
        short = 's',
        long,
        global = true,
        env = "SKILLBOX_SERVER_URL",
        hide_env_values = true,
        value_name = "URL",
        default_value = "http://localhost:8080"
    )]
    pub server: String,
    /// API key. By default the first key of the server on this machine, if you may read it.
    #[arg(
        short = 'k',
        long,
        global = true,
        env = "SKILLBOX_API_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    pub api_key: Option<String>,
    /// Tenant to act for. Needed only with a service key.
    #[arg(
        short = 't',
        long,
        global = true,
        env = "SKILLBOX_TENANT_ID",
        hide_env_values = true,
        value_name = "TENANT"
    )]
    pub tenant: Option<String>,
    /// Format of standard output.
    #[arg(short = 'o', long, global = true, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    pub output: Format,
}

impl Global {
    /// Whether a flag or a variable selects a server.
    pub(crate) fn is_server_configured(&self) -> bool {
        self.server != "http://localhost:8080" || self.api_key.is_some()
    }
}

/// `table` is for people, `json` is the server's response on one line.
// The variants have no doc comments, because clap would then print the long form of every help
// text.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start the service.
    Serve(serve::ServeArgs),
    /// Apply pending database migrations and exit.
    Migrate(migrate::MigrateArgs),
    /// Run a skill, on a server or from a directory, and print its result.
    Run(run::RunArgs),
    /// Run a script of a directory without a server, and write one audit record to standard error.
    Audit(audit::AuditArgs),
    /// List the skills below a directory. Needs no server.
    List(list::ListArgs),
    /// Check skills. The same as `skill lint`. Needs no server.
    Validate(skill::lint::LintArgs),
    /// Publish, check, sign and read skills.
    #[command(subcommand)]
    Skill(skill::SkillCommand),
    /// List, inspect and cancel executions, and read their logs and files.
    #[command(subcommand)]
    Exec(exec::ExecCommand),
    /// Create, list and revoke API keys.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Manage trusted signing keys and revoked skills.
    #[command(subcommand)]
    Trust(trust::TrustCommand),
    /// Verify the signed receipts of executions.
    #[command(subcommand)]
    Receipt(receipt::ReceiptCommand),
    /// Read the server's audit log, and verify that it was not tampered with.
    #[command(subcommand)]
    AuditLog(audit_log::AuditLogCommand),
    /// Create, list, change and delete tenants.
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Print the secret of webhook signatures.
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Print the configuration that `serve` would use, with secrets masked.
    Config(config::ConfigArgs),
    /// Check whether this machine can run skills: interpreters, isolation, services.
    Doctor(doctor::DoctorArgs),
    /// Start a proxy between servers and the Docker engine that allows only what a sandbox needs.
    DockerProxy(docker_proxy::DockerProxyArgs),
    /// Serve skills to an agent as MCP tools, on standard input and output.
    Mcp(mcp::McpArgs),
    /// Copy the guest into a directory, for the pod of a Kubernetes sandbox.
    #[command(hide = true)]
    GuestCopy(guest_copy::GuestCopyArgs),
    /// Check whether a server is up and ready.
    Health,
    /// Print the version of this program.
    Version,
    /// Print a completion script for your shell.
    Completions(completions::CompletionsArgs),
    /// Measure the overhead of a run through the service, compared with the bare interpreter.
    Bench(bench::BenchArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_work_before_and_after_the_command() {
        for line in [["skillbox", "-o", "json", "health"], ["skillbox", "health", "-o", "json"]] {
            let cli = Cli::try_parse_from(line).expect("a command");
            assert!(cli.global.output == Format::Json);
        }
    }

    #[test]
    fn arguments_after_two_dashes_belong_to_the_script() {
        let cli =
            Cli::try_parse_from(["skillbox", "run", "s", "--script", "a.py", "--", "-o", "x"])
                .expect("a command");
        let Command::Run(run) = cli.command else { panic!("run") };
        assert_eq!(run.args, ["-o", "x"]);
    }

    #[test]
    fn two_scripts_are_rejected() {
        assert!(Cli::try_parse_from(["skillbox", "run", "./s", "a.py", "--", "x"]).is_ok());
        assert!(
            Cli::try_parse_from(["skillbox", "run", "./s", "a.py", "--script", "b.py"]).is_err()
        );
        assert!(Cli::try_parse_from(["skillbox", "audit", "./s"]).is_err());
    }
}
