//! Environment variables a caller may not set, because they change how the interpreter or our own
//! contract works.

use language::Language;

/// Beside those of each language, [`language::LanguageSpec::protected_variables`].
const EXACT: [&str; 3] = ["PATH", "HOME", "SHELL"];
const PREFIXES: [&str; 5] = ["LD_", "PERL5", "RUBY", "SANDBOX_", "SKILL_"];
const SUFFIXES: [&str; 1] = ["_PROXY"];

/// Whether the name is refused, in any spelling of upper and lower case.
pub fn refused(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let protected = |language: Language| language.spec().protected_variables;
    EXACT.iter().chain(Language::ALL.into_iter().flat_map(protected)).any(|exact| *exact == name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn the_contracts_names_are_refused_in_any_case() {
        let names = "PATH HOME SHELL BASH_ENV ENV IFS LD_PRELOAD LD_ PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT \
            PYTHONWARNINGS NODE_PATH NODE_OPTIONS PERL5LIB PERL5OPT RUBYOPT RUBYLIB HTTP_PROXY https_proxy NO_PROXY \
            SANDBOX_INPUT SANDBOX_X SKILL_DIR SKILL_INSTRUCTIONS";
        for name in names.split_whitespace() {
            assert!(refused(name) && refused(&name.to_lowercase()), "{name}");
        }
    }

    #[test]
    fn ordinary_names_pass() {
        for name in [
            "API_KEY", "MY_PATH", "PATHS", "PYTHONUNBUFFERED", "LANG", "PROXY", "LD", "CLAUDE",
            "SKILLS",
        ] {
            assert!(!refused(name), "{name}");
        }
    }
}
