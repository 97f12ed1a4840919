//! The table. A new language is one variant below and one constant of `LanguageSpec`; the compiler
//! names the fields to fill in.

use serde::{Deserialize, Serialize};

use crate::starters;

/// Everything that is data about one language.
#[derive(Debug)]
pub struct LanguageSpec {
    /// The name in manifests, in JSON and in the names of settings.
    pub name: &'static str,
    /// The extensions of its scripts, without the dot.
    pub extensions: &'static [&'static str],
    /// The names of its interpreters on a `#!` line and in commands.
    pub program_names: &'static [&'static str],
    /// Whether a version may follow such a name, as in `python3.12`.
    pub versioned_programs: bool,
    /// The interpreter that runs scripts, looked up in `PATH`.
    pub program: &'static str,
    /// Options that precede the script and those that it asks for itself.
    pub program_options: &'static [&'static str],
    /// Arguments that make the interpreter print its version, its own path and, for
    /// [`InstallDirectories::Reported`], its directories, each on one line.
    pub probe_arguments: &'static [&'static str],
    /// The host directories that a native sandbox needs for it.
    pub install_directories: InstallDirectories,
    /// The server setting that names its image.
    pub image_setting: &'static str,
    /// The default of that setting.
    pub default_image: &'static str,
    /// File names that are the entrypoint of a skill that declares none, the first one first.
    pub default_entrypoints: &'static [&'static str],
    /// What a line comment starts with.
    pub line_comment: &'static str,
    /// Variables that make the interpreter load other code or behave differently. Callers may not
    /// set them.
    pub protected_variables: &'static [&'static str],
    /// The script of `skillbox skill new`; it is written to the first default entrypoint.
    pub starter_script: &'static str,
}

/// Where an interpreter that does not belong to the system keeps its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallDirectories {
    /// In the directories that the probe prints.
    Reported,
    /// Two levels above the program if this path exists there; otherwise the program stands alone.
    ParentWith(&'static str),
    /// Only in the system's own directories, which every sandbox has.
    System,
}

/// Makes the enum, the list of all variants and the lookup from one list, so that none of them can
/// miss a language.
macro_rules! languages {
    ($($variant:ident => $spec:ident),+ $(,)?) => {
        /// A language that skills are written in.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(rename_all = "lowercase")]
        pub enum Language {
            $($variant),+
        }

        impl Language {
            /// Every language. Where several could match, an earlier one takes precedence.
            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

            pub const fn spec(self) -> &'static LanguageSpec {
                match self {
                    $(Self::$variant => &$spec),+
                }
            }
        }
    };
}

languages! {
    Python => PYTHON,
    Node => NODE,
    Bash => BASH,
}

const PYTHON: LanguageSpec = LanguageSpec {
    name: "python",
    extensions: &["py"],
    program_names: &["python"],
    versioned_programs: true,
    program: "python3",
    // Unbuffered, because the output that a killed script had printed would be lost otherwise.
    program_options: &["-u"],
    probe_arguments: &[
        "-I",
        "-c",
        "import sys; print(sys.version.split()[0], sys.executable, sys.prefix, sys.base_prefix, sep='\\n')",
    ],
    install_directories: InstallDirectories::Reported,
    image_setting: "image_python",
    default_image: "python:3.12-slim",
    default_entrypoints: &["main.py", "run.py"],
    line_comment: "#",
    protected_variables: &[
        "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS",
    ],
    starter_script: starters::PYTHON,
};

const NODE: LanguageSpec = LanguageSpec {
    name: "node",
    extensions: &["js", "mjs", "cjs"],
    program_names: &["node", "nodejs"],
    versioned_programs: false,
    program: "node",
    program_options: &[],
    probe_arguments: &["-p", "process.versions.node + '\\n' + process.execPath"],
    install_directories: InstallDirectories::ParentWith("lib/node_modules"),
    image_setting: "image_node",
    default_image: "node:20-slim",
    default_entrypoints: &["main.js"],
    line_comment: "//",
    protected_variables: &["NODE_PATH", "NODE_OPTIONS"],
    starter_script: starters::NODE,
};

const BASH: LanguageSpec = LanguageSpec {
    name: "bash",
    extensions: &["sh", "bash"],
    program_names: &["bash", "sh"],
    versioned_programs: false,
    program: "bash",
    program_options: &[],
    probe_arguments: &["-c", "echo ${BASH_VERSION%%(*}; echo $BASH"],
    install_directories: InstallDirectories::System,
    image_setting: "image_bash",
    default_image: "bash:5",
    default_entrypoints: &["main.sh"],
    line_comment: "#",
    protected_variables: &["BASH_ENV", "ENV", "IFS"],
    starter_script: starters::BASH,
};
