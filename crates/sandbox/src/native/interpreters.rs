//! The host's interpreters: found through `PATH`, and probed for their version and installation.

use language::{InstallDirectories, Language, LanguageSpec};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The host directory that every sandbox has.
const SYSTEM_DIRECTORY: &str = "/usr";

/// The directories in a script's `PATH` after those of the interpreters.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// One interpreter and the host directories it needs beyond the system's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interpreter {
    pub program: PathBuf,
    pub version: String,
    pub binds: Vec<PathBuf>,
}

/// The interpreters found on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Interpreters(pub BTreeMap<Language, Interpreter>);

impl Interpreters {
    /// Looks for an interpreter of each language in the directories of `search_path`.
    pub fn find(search_path: Option<&OsStr>) -> Interpreters {
        let path = search_path.map_or_else(|| OsString::from(DEFAULT_PATH), OsStr::to_owned);
        let find = |language: Language| {
            let interpreter = find_interpreter(language.spec(), &path)?;
            Some((language, interpreter))
        };
        Interpreters(Language::ALL.into_iter().filter_map(find).collect())
    }

    /// The host directories to bind in addition to the system's, without those below another.
    pub fn binds(&self) -> Vec<PathBuf> {
        let mut binds: Vec<PathBuf> =
            self.0.values().flat_map(|found| found.binds.iter().cloned()).collect();
        binds.sort();
        binds.dedup_by(|later, earlier| later.starts_with(earlier));
        binds
    }

    /// The `PATH` inside: the found interpreters precede any other program of the same name.
    pub fn path(&self) -> String {
        let own = self
            .0
            .values()
            .filter_map(|found| Some(found.program.parent()?.to_string_lossy().into_owned()));
        let mut directories: Vec<String> = Vec::new();
        for directory in own.chain(DEFAULT_PATH.split(':').map(str::to_owned)) {
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        directories.join(":")
    }
}

/// The first program of the interpreter's name that runs and reports where it is installed. A
/// version manager's shim reports the real program.
fn find_interpreter(spec: &LanguageSpec, path: &OsStr) -> Option<Interpreter> {
    let candidates = std::env::split_paths(path)
        .map(|directory| directory.join(spec.program))
        .filter(|file| file.is_file());
    candidates.into_iter().find_map(|candidate| {
        let result = probe(&candidate, path)
            .args(spec.probe_arguments)
            .output()
            .ok()
            .filter(|result| result.status.success())?;
        let output = String::from_utf8(result.stdout).ok()?;
        parse_probe_output(spec, &output.lines().collect::<Vec<_>>())
    })
}

/// The command that probes a program. Its environment is empty except for the variables that
/// version managers' shims need to find the real program: ours holds the server's secrets, and a
/// variable may change what an interpreter loads.
fn probe(program: &Path, path: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", path).stdin(Stdio::null()).stderr(Stdio::null());
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    if let Some(home) = home_of(rustix::process::getuid().as_raw(), &accounts) {
        command.env("HOME", home);
    }
    command
}

fn home_of(uid: u32, accounts: &str) -> Option<&str> {
    let account = accounts
        .lines()
        .find(|account| account.split(':').nth(2) == Some(uid.to_string().as_str()))?;
    account.split(':').nth(5).filter(|home| !home.is_empty())
}

fn parse_probe_output(spec: &LanguageSpec, output: &[&str]) -> Option<Interpreter> {
    let (version, program) = (output.first()?.to_string(), PathBuf::from(output.get(1)?));
    let mut binds: Vec<PathBuf> = match spec.install_directories {
        InstallDirectories::Reported => output[2..].iter().map(PathBuf::from).collect(),
        InstallDirectories::ParentWith(marker) => vec![installation(&program, marker)],
        InstallDirectories::System => vec![],
    };
    binds.push(program.clone());
    // If the program is a link, its target is needed as well.
    binds.extend(program.canonicalize());
    binds.retain(|path| is_bindable(path));
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    if let Some(home) = binds.iter().find(|path| contains_home(path, &accounts)) {
        tracing::warn!(
            "interpreter {} is not used, because scripts could read all of {}",
            program.display(),
            home.display()
        );
        return None;
    }
    binds.sort();
    binds.dedup_by(|later, earlier| later.starts_with(earlier));
    Some(Interpreter { program, version, binds })
}

/// The installation that a program belongs to, two levels above it, or the program alone if the
/// marker is not there and the directory therefore holds other things too.
fn installation(program: &Path, marker: &str) -> PathBuf {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let home = real.parent().and_then(Path::parent).map(Path::to_owned);
    home.filter(|home| home.join(marker).is_dir()).unwrap_or(real)
}

/// Excludes the whole file system, and directories that the root contains anyway.
fn is_bindable(path: &Path) -> bool {
    let system = [SYSTEM_DIRECTORY, "/bin", "/sbin", "/lib", "/lib64"]
        .iter()
        .any(|system| path.starts_with(system));
    path.is_absolute() && path.parent().is_some() && !system && path.exists()
}

/// Whether a user's home directory is at or below the path: an interpreter can be installed with a
/// home directory as its prefix, and scripts could then read the user's files.
fn contains_home(path: &Path, accounts: &str) -> bool {
    accounts
        .lines()
        .filter_map(|account| account.split(':').nth(5))
        .any(|home| Path::new(home).starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_bash_and_its_version() {
        let found = Interpreters::find(None);
        let bash = found.0.get(&Language::Bash).expect("every Debian has bash");
        assert!(bash.version.starts_with(|c: char| c.is_ascii_digit()), "{bash:?}");
        assert!(bash.binds.is_empty());
    }

    #[test]
    fn finds_nothing_in_an_empty_directory() {
        let empty = tempfile::tempdir().expect("temporary directory");
        assert_eq!(Interpreters::find(Some(empty.path().as_os_str())), Interpreters::default());
    }

    #[test]
    fn probed_program_does_not_inherit_our_environment() {
        // Cargo sets this variable for every test; it represents a server's secrets.
        const OURS: &str = "CARGO_MANIFEST_DIR=";
        let env = Path::new("/usr/bin/env");
        let seen = |mut command: Command| {
            String::from_utf8(command.output().expect("run").stdout).expect("text")
        };
        assert!(
            seen(Command::new(env)).contains(OURS),
            "control: an ordinary child process inherits it"
        );
        let probed = seen(probe(env, OsStr::new("/usr/bin:/bin")));
        let names: Vec<_> = probed.lines().filter_map(|line| line.split('=').next()).collect();
        assert!(names.iter().all(|name| ["PATH", "HOME"].contains(name)), "{probed}");
        assert!(probed.contains("PATH=/usr/bin:/bin\n"), "{probed}");
    }

    #[test]
    fn finds_a_home_directory_by_user_id() {
        let accounts =
            "root:x:0:0::/root:/bin/sh\nme:x:1000:1::/home/me:/bin/sh\nnone:x:7:7:::/bin/sh\n";
        assert_eq!(home_of(1000, accounts), Some("/home/me"));
        assert_eq!((home_of(7, accounts), home_of(1, accounts)), (None, None));
    }

    #[test]
    fn rejects_directories_that_contain_homes() {
        let accounts = "root:x:0:0::/root:/bin/sh\nme:x:1:1::/home/me:/bin/sh\n";
        for path in ["/home/me", "/home", "/root"] {
            assert!(contains_home(Path::new(path), accounts), "{path}");
        }
        for path in [
            "/home/me/.pyenv/versions/3.12", "/root/.nvm/versions/node/v24", "/opt/python",
            "/home/m",
        ] {
            assert!(!contains_home(Path::new(path), accounts), "{path}");
        }
    }

    #[test]
    fn nested_directories_are_bound_once() {
        let interpreter = |binds: &[&str]| Interpreter {
            program: "/opt/x/bin/y".into(),
            version: "1".into(),
            binds: binds.iter().map(PathBuf::from).collect(),
        };
        let found = Interpreters(BTreeMap::from([
            (Language::Python, interpreter(&["/opt/x"])),
            (Language::Node, interpreter(&["/opt/x/node", "/opt/xy"])),
        ]));
        assert_eq!(found.binds(), [PathBuf::from("/opt/x"), PathBuf::from("/opt/xy")]);
        assert!(found.path().starts_with("/opt/x/bin:/usr/local/sbin:"));
    }
}
