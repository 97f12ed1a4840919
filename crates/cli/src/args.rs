//! The command line as a whole: the global flags and the list of commands.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    audit, audit_log, bench, completions, config, docker_proxy, doctor, exec, guest_copy, key,
    list, mcp, migrate, receipt, run, serve, skill, tenant, trust, webhook,
};

/// Runs AI agent skills, each in its own single-use sandbox.
#[derive(Parser)]
#[command(name = "skillbox", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Exit codes: a failed run gives the script's own code (124 on a timeout, 130 when cancelled, 1 when there is none); \
a failed call or wrong usage gives 2.

To start: `skillbox run DIR` runs a skill on this machine, with no server. Or `skillbox serve` in one terminal, then \
`skillbox skill push DIR` and `skillbox run NAME` in another.";

/// Flags every command takes.
#[derive(Args, Clone)]
#[command(next_help_heading = "Global options")]
pub struct Global {
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
    /// API key. Without one, the first key of the server on this machine is used, if you may read
    /// it.
    #[arg(
        short = 'k',
        long,
        global = true,
        env = "SKILLBOX_API_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    pub api_key: Option<String>,
    /// Tenant to act for; needed only with a service key.
    #[arg(
        short = 't',
        long,
        global = true,
        env = "SKILLBOX_TENANT_ID",
        hide_env_values = true,
        value_name = "TENANT"
    )]
    pub tenant: Option<String>,
    /// What to print on standard output.
    #[arg(short = 'o', long, global = true, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    pub output: Format,
}

impl Global {
    /// Whether a flag or a variable selects a server.
    pub fn is_server_configured(&self) -> bool {
        self.server != "http://localhost:8080" || self.api_key.is_some()
    }
}

/// `table` is for people, `json` is what the server said, on one line. (A comment on a variant
/// would make clap print the long form of every help text.)
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
}

#[derive(Subcommand)]
pub enum Command {
    /// Start the service.
    Serve(serve::ServeArgs),
    /// Bring the tables of the database up to date, and end.
    Migrate(migrate::MigrateArgs),
    /// Run a skill, on the server or from a directory, and print what it gives back.
    Run(run::RunArgs),
    /// Run a script of a directory without a server, and write one record of it to standard error.
    Audit(audit::AuditArgs),
    /// List the skills below a directory, without a server.
    List(list::ListArgs),
    /// Check skills, without a server; the same as `skill lint`.
    Validate(skill::lint::LintArgs),
    /// Publish, check and read skills.
    #[command(subcommand)]
    Skill(skill::SkillCommand),
    /// Look at executions, their logs and files, and cancel them.
    #[command(subcommand)]
    Exec(exec::ExecCommand),
    /// Make, list and revoke API keys.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Say whose signatures on skills count, and what must not run.
    #[command(subcommand)]
    Trust(trust::TrustCommand),
    /// Check receipts of executions, without a server.
    #[command(subcommand)]
    Receipt(receipt::ReceiptCommand),
    /// Read the server's audit log, and check that nobody tampered with it.
    #[command(subcommand)]
    AuditLog(audit_log::AuditLogCommand),
    /// Make, list and remove tenants.
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Look after webhooks.
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Print the configuration `serve` would use, secrets masked.
    Config(config::ConfigArgs),
    /// Say what this machine offers to run skills: interpreters, isolation.
    Doctor(doctor::DoctorArgs),
    /// Stand between servers and the Docker engine, and let through only what a sandbox needs.
    DockerProxy(docker_proxy::DockerProxyArgs),
    /// Offer skills to an agent's program as MCP tools, on standard input and output.
    Mcp(mcp::McpArgs),
    /// Put the guest into a directory, for the pod of a Kubernetes sandbox.
    #[command(hide = true)]
    GuestCopy(guest_copy::GuestCopyArgs),
    /// Ask a server whether it is up and ready.
    Health,
    /// Print the version of this program.
    Version,
    /// Print a completion script for your shell.
    Completions(completions::CompletionsArgs),
    /// Compare a run through the service with the bare interpreter, on this machine.
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
    fn global_flags_stand_before_or_after_the_command() {
        for line in [["skillbox", "-o", "json", "health"], ["skillbox", "health", "-o", "json"]] {
            let cli = Cli::try_parse_from(line).expect("a command");
            assert!(cli.global.output == Format::Json);
        }
    }

    #[test]
    fn arguments_after_the_dashes_belong_to_the_script() {
        let cli =
            Cli::try_parse_from(["skillbox", "run", "s", "--script", "a.py", "--", "-o", "x"])
                .expect("a command");
        let Command::Run(run) = cli.command else { panic!("run") };
        assert_eq!(run.args, ["-o", "x"]);
    }

    #[test]
    fn a_script_is_named_once() {
        assert!(Cli::try_parse_from(["skillbox", "run", "./s", "a.py", "--", "x"]).is_ok());
        assert!(
            Cli::try_parse_from(["skillbox", "run", "./s", "a.py", "--script", "b.py"]).is_err()
        );
        assert!(Cli::try_parse_from(["skillbox", "audit", "./s"]).is_err());
    }
}
