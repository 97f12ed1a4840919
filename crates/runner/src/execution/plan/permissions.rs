//! What a skill and a request may ask for: images, permissions, environment variables. Pure.

use language::Language;

use crate::execution::stop::Stop;
use crate::{Request, RunPolicy};
use catalogue::LoadedSkill;

/// Variables a caller may not set, because they change how scripts run or our own contract. Those
/// that change an interpreter are in [`language::LanguageSpec::protected_variables`].
const RESERVED_NAMES: [&str; 3] = ["PATH", "HOME", "SHELL"];
const RESERVED_PREFIXES: [&str; 5] = ["LD_", "PERL5", "RUBY", "SANDBOX_", "SKILL_"];
const RESERVED_SUFFIXES: [&str; 1] = ["_PROXY"];

/// Refuses a run that would lack what the skill asks for, or change what it relies on.
pub(super) fn check(
    skill: &LoadedSkill,
    request: &Request,
    policy: &RunPolicy,
) -> Result<(), Stop> {
    check_image(skill, policy)?;
    check_permissions(skill)?;
    check_env(skill, request)
}

fn check_image(skill: &LoadedSkill, policy: &RunPolicy) -> Result<(), Stop> {
    match (&skill.manifest.image, &policy.image_allowlist) {
        (Some(image), Some(allowed)) if !allowed.contains(image) => {
            Err(Stop::refused(format!("Image {image:?} is not allowed by this server.")))
        }
        _ => Ok(()),
    }
}

/// A permission that is not granted is refused by name: a run without it would fail later, with an
/// error that hides the cause.
fn check_permissions(skill: &LoadedSkill) -> Result<(), Stop> {
    let refused = skill.manifest.permissions.list_refused();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Stop::refused(format!(
        "The skill asks for what is not granted here: {}.",
        refused.join("; ")
    )))
}

fn check_env(skill: &LoadedSkill, request: &Request) -> Result<(), Stop> {
    if let Some(name) = request.env.keys().find(|name| is_reserved(name)) {
        return Err(Stop::refused(format!("The env name {name} is refused.")));
    }
    match request.env.keys().find(|name| !skill.manifest.permissions.allows_env(name)) {
        Some(name) => Err(Stop::refused(format!(
            "The env name {name} is refused, because the skill's permissions.env_vars.allow does not list it."
        ))),
        None => Ok(()),
    }
}

/// Whether a caller may not set the variable, in any case of its letters.
fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let protected = |language: Language| language.spec().protected_variables;
    let of_languages = Language::ALL.into_iter().flat_map(protected);
    RESERVED_NAMES.iter().chain(of_languages).any(|reserved| *reserved == name)
        || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || RESERVED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::is_reserved;

    #[test]
    fn reserved_names_are_refused_in_any_case() {
        let names = "PATH HOME SHELL BASH_ENV ENV IFS LD_PRELOAD LD_ PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT \
            PYTHONWARNINGS NODE_PATH NODE_OPTIONS PERL5LIB PERL5OPT RUBYOPT RUBYLIB HTTP_PROXY https_proxy NO_PROXY \
            SANDBOX_INPUT SANDBOX_X SKILL_DIR SKILL_INSTRUCTIONS";
        for name in names.split_whitespace() {
            assert!(is_reserved(name) && is_reserved(&name.to_lowercase()), "{name}");
        }
    }

    #[test]
    fn ordinary_names_are_allowed() {
        for name in [
            "API_KEY", "MY_PATH", "PATHS", "PYTHONUNBUFFERED", "LANG", "PROXY", "LD", "CLAUDE",
            "SKILLS",
        ] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
