//! The command line as a whole: the global flags and the list of commands.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{bench, completions, config, doctor, exec, key, run, serve, skill, tenant};

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

To start: `skillbox serve` in one terminal, then `skillbox skill push DIR` and `skillbox run NAME` in another.";

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
    /// API key. Without one, the first key of the server on this machine is used, if you may read it.
    #[arg(short = 'k', long, global = true, env = "SKILLBOX_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// Tenant to act for; needed only with a service key.
    #[arg(short = 't', long, global = true, env = "SKILLBOX_TENANT_ID", hide_env_values = true, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// What to print on standard output.
    #[arg(short = 'o', long, global = true, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    pub output: Format,
}

/// `table` is for people, `json` is what the server said, on one line. (A comment on a variant would make clap print
/// the long form of every help text.)
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
}

#[derive(Subcommand)]
pub enum Command {
    /// Start the service.
    Serve(serve::ServeArgs),
    /// Run a skill and print what it gives back.
    Run(run::RunArgs),
    /// Publish, check and read skills.
    #[command(subcommand)]
    Skill(skill::SkillCommand),
    /// Look at executions, their logs and files, and cancel them.
    #[command(subcommand)]
    Exec(exec::ExecCommand),
    /// Make, list and revoke API keys.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Make, list and remove tenants.
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Print the configuration `serve` would use, secrets masked.
    Config(config::ConfigArgs),
    /// Say what this machine offers to run skills: interpreters, isolation.
    Doctor(doctor::DoctorArgs),
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
            Cli::try_parse_from(["skillbox", "run", "s", "--script", "a.py", "--", "-o", "x"]).expect("a command");
        let Command::Run(run) = cli.command else { panic!("run") };
        assert_eq!(run.args, ["-o", "x"]);
    }
}
