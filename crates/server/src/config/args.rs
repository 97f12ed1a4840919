//! The command line flags of `skillbox serve`, generated from the settings table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};

use super::settings::{SETTINGS, Stability};

/// The flags as given. Flatten it into a clap command.
#[derive(Clone, Default)]
pub struct Args {
    /// The TOML file; `SKILLBOX_CONFIG` names one too.
    pub config: Option<PathBuf>,
    /// Values by file key.
    pub values: BTreeMap<String, String>,
}

/// The identifier of the flag for the file. Identifiers have our prefix, so that they cannot clash
/// with other arguments.
const CONFIG_ARG: &str = "SKILLBOX_CONFIG";

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(CONFIG_ARG)
            .long("config")
            .value_name("FILE")
            .help("TOML file with the same settings [env: SKILLBOX_CONFIG]");
        SETTINGS.iter().fold(command.arg(file), |command, setting| {
            let mut help = setting.help.replace('`', "");
            if !setting.default.is_empty() {
                help.push_str(&format!(" [default: {}]", setting.default));
            }
            help.push_str(&format!(" [env: {}]", setting.env()));
            let arg = Arg::new(setting.env())
                .long(setting.flag())
                .value_name("VALUE")
                .hide(setting.stability != Stability::Supported)
                .help(help);
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Args::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        if let Some(path) = matches.get_one::<String>(CONFIG_ARG) {
            self.config = Some(PathBuf::from(path));
        }
        for setting in SETTINGS {
            if let Some(value) = matches.get_one::<String>(&setting.env()) {
                self.values.insert(setting.key.to_owned(), value.clone());
            }
        }
        Ok(())
    }
}
