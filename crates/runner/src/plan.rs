//! Step three, plan: what runs, where, with what, within which limits. A pure function of the
//! skill, the request and the server's policy. Whatever must be refused before a sandbox costs
//! anything is refused here.

use bytes::Bytes;
use sandbox::{Job, JobFile, OutputLimits, Shape, StreamMode, StreamedFile, paths};
use skill::{Shim, SkillScript};

use crate::env;
use crate::halt::Halt;
use crate::limits::Limits;
use crate::load::Skill;
use crate::{Cwd, Policy, Request};

/// The kernel takes no single variable above 128 KiB; scripts read the file instead.
const MAX_INPUT_VARIABLE_BYTES: usize = 96 << 10;
const MAX_INSTRUCTIONS_VARIABLE_BYTES: usize = 64 << 10;
/// Beside the skill's own tree, which stays as it was published.
const SKILLWARE_SHIM: &str = "/sandbox/shim/run_skillware.py";

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub shape: Shape,
    pub job: Job,
    /// The path of the script inside the skill.
    pub script: String,
    /// One sentence for each limit that was asked for and not given.
    pub clamped: Vec<String>,
}

pub fn plan(skill: &Skill, request: &Request, policy: &Policy) -> Result<Plan, Halt> {
    check_image(skill, policy)?;
    check_permissions(skill)?;
    check_env(skill, request)?;
    let input = request.input_json();
    let script = choose_script(skill, request)?;
    let limits = Limits::new(&skill.manifest, request, policy);
    let shape = Shape { image: image(skill, policy), ..shape(script, &limits, policy) };
    let files = files(skill, script, input, &shape)?;
    let job = Job {
        files,
        streamed: Vec::new(),
        links: vec![(
            format!("{}/{}", paths::SKILLS, skill.manifest.name),
            paths::SCRIPTS.to_owned(),
        )],
        argv: argv(script, skill, request),
        env: environment(skill, request, input),
        cwd: cwd(skill, request).to_owned(),
        stdin: request.stdin.clone().map(Bytes::from),
        // A caller who names a script reads its standard output as the result; everybody else reads
        // logs, where the exact order matters more than which stream a line came from.
        streams: if request.script.is_some() { StreamMode::Split } else { StreamMode::Merged },
        output_limits: output_limits(skill, policy),
        timeout: limits.timeout,
    };
    Ok(Plan { shape, job, script: script.path.clone(), clamped: limits.clamped })
}

impl Plan {
    /// The same with the request's input files placed too, none of which has been read yet.
    pub fn with_inputs(mut self, inputs: Vec<StreamedFile>) -> Result<Plan, Halt> {
        let files = self.job.files.iter().map(|file| file.bytes.len() as u64);
        check_room(files.chain(inputs.iter().map(|file| file.size)), &self.shape)?;
        self.job.streamed = inputs;
        Ok(self)
    }
}

fn check_image(skill: &Skill, policy: &Policy) -> Result<(), Halt> {
    match (&skill.manifest.image, &policy.image_allowlist) {
        (Some(image), Some(allowed)) if !allowed.contains(image) => {
            Err(Halt::refused(format!("Image {image:?} is not allowed by this server.")))
        }
        _ => Ok(()),
    }
}

/// The image a skill names, where images mean something; `check_image` has let it through.
fn image(skill: &Skill, policy: &Policy) -> Option<String> {
    policy.image_allowlist.as_ref().and(skill.manifest.image.clone())
}

/// What a skill asks for and nobody grants is refused by name: a run without it would fail in some
/// other, stranger way.
fn check_permissions(skill: &Skill) -> Result<(), Halt> {
    let refused = skill.manifest.permissions.list_refused();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Halt::refused(format!(
        "The skill asks for what is not granted here: {}.",
        refused.join("; ")
    )))
}

fn check_env(skill: &Skill, request: &Request) -> Result<(), Halt> {
    if let Some(name) = request.env.keys().find(|name| env::refused(name)) {
        return Err(Halt::refused(format!("The env name {name} is refused.")));
    }
    match request.env.keys().find(|name| !skill.manifest.permissions.allows_env(name)) {
        Some(name) => Err(Halt::refused(format!(
            "The env name {name} is refused, because the skill's permissions.env_vars.allow does not list it."
        ))),
        None => Ok(()),
    }
}

/// A script is chosen from the skill's own list, so a path can never lead anywhere else.
fn choose_script<'a>(skill: &'a Skill, request: &Request) -> Result<&'a SkillScript, Halt> {
    let Some(asked) = &request.script else {
        return skill.entrypoint.as_ref().ok_or_else(|| {
            Halt::refused(format!(
                "The skill has no default entrypoint; name one of its scripts: {}",
                list(&skill.scripts)
            ))
        });
    };
    let asked = asked.strip_prefix("./").unwrap_or(asked);
    skill.scripts.iter().find(|script| script.path == asked).ok_or_else(|| {
        Halt::refused(format!(
            "The skill has no script {asked:?} that can run; it has: {}",
            list(&skill.scripts)
        ))
    })
}

fn list(scripts: &[SkillScript]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<&str> = scripts.iter().take(SHOWN).map(|script| script.path.as_str()).collect();
    match scripts.len() {
        0 => "none".to_owned(),
        count if count > SHOWN => format!("{} and {} more", shown.join(", "), count - SHOWN),
        _ => shown.join(", "),
    }
}

/// What is written to disk lies in memory and counts against its limit. Half of it leaves the
/// interpreter enough room that a full disk shows as one, with an error the script can handle,
/// before the memory limit kills it.
fn shape(script: &SkillScript, limits: &Limits, policy: &Policy) -> Shape {
    Shape {
        language: script.lang,
        image: None,
        memory_bytes: limits.memory_bytes,
        cpu_millis: limits.cpu_millis,
        pids: policy.pids,
        disk_bytes: limits.memory_bytes / 2,
        disk_inodes: policy.disk_inodes,
    }
}

fn files(
    skill: &Skill,
    script: &SkillScript,
    input: &str,
    shape: &Shape,
) -> Result<Vec<JobFile>, Halt> {
    let placed =
        |path: &str, bytes: Bytes| JobFile { path: path.to_owned(), bytes, executable: false };
    let of_skill = skill.files.iter().map(|file| JobFile {
        path: format!("{}/{}", paths::SCRIPTS, file.path),
        bytes: file.bytes.clone(),
        executable: file.executable,
    });
    let mut files: Vec<_> = of_skill.collect();
    files.push(placed(paths::INPUT_JSON, Bytes::copy_from_slice(input.as_bytes())));
    // It is ours and no part of what was published, so it is not in the archive and not under its
    // digest.
    if let Some(Shim::Skillware) = script.shim {
        files.push(placed(SKILLWARE_SHIM, Bytes::from_static(include_bytes!("skillware.py"))));
    }
    check_room(files.iter().map(|file| file.bytes.len() as u64), shape)?;
    Ok(files)
}

fn check_room(sizes: impl Iterator<Item = u64>, shape: &Shape) -> Result<(), Halt> {
    let total = sizes.fold(0, u64::saturating_add);
    if total > shape.disk_bytes {
        return Err(Halt::refused(format!(
            "The skill and its input take {total} bytes and its disk holds {}, half of its memory limit.",
            shape.disk_bytes
        )));
    }
    Ok(())
}

fn argv(script: &SkillScript, skill: &Skill, request: &Request) -> Vec<String> {
    let spec = script.lang.spec();
    let mut argv = vec![spec.program.to_owned()];
    argv.extend(spec.program_options.iter().map(|&option| option.to_owned()));
    match script.shim {
        // It imports the file, whose first line is not looked at then.
        Some(Shim::Skillware) => argv.push(SKILLWARE_SHIM.to_owned()),
        None => argv.extend_from_slice(&script.flags),
    }
    argv.push(format!("{}/{}", paths::SCRIPTS, script.path));
    if request.script.is_none() {
        argv.extend_from_slice(&skill.manifest.entrypoint_args);
    }
    argv.extend_from_slice(&request.args);
    argv
}

/// Everything but `PATH`, which is the sandbox's own.
fn environment(skill: &Skill, request: &Request, input: &str) -> Vec<(String, String)> {
    let files_dir = format!("{}/", paths::FILES_DIR);
    let instructions = skill.manifest.instructions.as_str();
    let ours = [
        ("SANDBOX_INPUT", Some(input).filter(|input| input.len() <= MAX_INPUT_VARIABLE_BYTES)),
        ("SANDBOX_OUTPUT", Some(paths::OUTPUT_JSON)),
        // Existing scripts append a name to it without a slash of their own.
        ("SANDBOX_FILES_DIR", Some(files_dir.as_str())),
        ("SANDBOX_INPUT_DIR", Some(paths::INPUT_DIR)),
        (
            "SKILL_INSTRUCTIONS",
            Some(instructions).filter(|text| text.len() <= MAX_INSTRUCTIONS_VARIABLE_BYTES),
        ),
        ("SKILL_DIR", Some(paths::SCRIPTS)),
        ("CLAUDE_SKILL_DIR", Some(paths::SCRIPTS)),
        ("HOME", Some(paths::TMP)),
        ("LANG", Some("C.UTF-8")),
    ];
    let ours = ours.into_iter().filter(|(name, _)| !request.env.contains_key(*name));
    let ours = ours.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    // A variable stands once: of two with one name, programs disagree which counts.
    ours.chain(request.env.clone()).collect()
}

fn cwd(skill: &Skill, request: &Request) -> &'static str {
    match request.cwd {
        Some(Cwd::Skill) => paths::SCRIPTS,
        Some(Cwd::Workspace) => paths::WORKSPACE,
        None if skill.manifest.starts_in_skill && request.script.is_none() => paths::SCRIPTS,
        Some(Cwd::Sandbox) | None => paths::SANDBOX,
    }
}

/// The server's, or the skill's own where they are tighter.
fn output_limits(skill: &Skill, policy: &Policy) -> OutputLimits {
    let own = skill.manifest.resources.output_bytes.unwrap_or(u64::MAX);
    let OutputLimits { log_bytes, output_bytes, .. } = policy.output_limits;
    OutputLimits {
        log_bytes: log_bytes.min(own),
        output_bytes: output_bytes.min(own),
        ..policy.output_limits
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
