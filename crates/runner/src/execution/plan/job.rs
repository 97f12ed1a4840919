//! The job that the guest receives: files, arguments, environment, working directory. Pure.

use bytes::Bytes;
use sandbox::{Job, JobFile, OutputLimits, StreamMode, paths};
use skill::{Shim, SkillScript};

use super::limits::RunLimits;
use crate::{Cwd, Request, RunPolicy};
use catalogue::LoadedSkill;

/// The kernel takes no single variable above 128 KiB; scripts read the file instead.
const MAX_INPUT_VARIABLE_BYTES: usize = 96 << 10;
const MAX_INSTRUCTIONS_VARIABLE_BYTES: usize = 64 << 10;
/// Outside the skill's own directory, which stays as it was published.
const SKILLWARE_SHIM: &str = "/sandbox/shim/run_skillware.py";

/// The job without the request's input files.
pub(super) fn job(
    skill: &LoadedSkill,
    script: &SkillScript,
    request: &Request,
    limits: &RunLimits,
    policy: &RunPolicy,
) -> Job {
    let input = request.input_json();
    Job {
        files: files(skill, script, input),
        streamed: Vec::new(),
        links: vec![(
            format!("{}/{}", paths::SKILLS, skill.manifest.name),
            paths::SCRIPTS.to_owned(),
        )],
        argv: argv(script, skill, request),
        env: environment(skill, request, input),
        cwd: cwd(skill, request).to_owned(),
        stdin: request.stdin.clone().map(Bytes::from),
        // A caller who names a script reads its standard output as the result. All others read
        // logs, where the exact order matters more than which stream a line came from.
        streams: if request.script.is_some() { StreamMode::Split } else { StreamMode::Merged },
        output_limits: output_limits(skill, policy),
        timeout: limits.timeout,
    }
}

fn files(skill: &LoadedSkill, script: &SkillScript, input: &str) -> Vec<JobFile> {
    let file =
        |path: &str, bytes: Bytes| JobFile { path: path.to_owned(), bytes, executable: false };
    let of_skill = skill.files.iter().map(|file| JobFile {
        path: format!("{}/{}", paths::SCRIPTS, file.path),
        bytes: file.bytes.clone(),
        executable: file.executable,
    });
    let mut files: Vec<_> = of_skill.collect();
    files.push(file(paths::INPUT_JSON, Bytes::copy_from_slice(input.as_bytes())));
    // The shim is ours and no part of what was published, so it is not in the archive and not
    // covered by its digest.
    if let Some(Shim::Skillware) = script.shim {
        files.push(file(SKILLWARE_SHIM, Bytes::from_static(include_bytes!("skillware.py"))));
    }
    files
}

fn argv(script: &SkillScript, skill: &LoadedSkill, request: &Request) -> Vec<String> {
    let spec = script.lang.spec();
    let mut argv = vec![spec.program.to_owned()];
    argv.extend(spec.program_options.iter().map(|&option| option.to_owned()));
    match script.shim {
        // The shim imports the script, so the flags of its first line do not apply.
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

/// All variables but `PATH`, which the sandbox sets.
fn environment(skill: &LoadedSkill, request: &Request, input: &str) -> Vec<(String, String)> {
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
    // Each name occurs once: programs disagree which of two values counts.
    ours.chain(request.env.clone()).collect()
}

fn cwd(skill: &LoadedSkill, request: &Request) -> &'static str {
    match request.cwd {
        Some(Cwd::Skill) => paths::SCRIPTS,
        Some(Cwd::Workspace) => paths::WORKSPACE,
        None if skill.manifest.starts_in_skill && request.script.is_none() => paths::SCRIPTS,
        Some(Cwd::Sandbox) | None => paths::SANDBOX,
    }
}

/// The server's output_limits, or the skill's own where they are tighter.
fn output_limits(skill: &LoadedSkill, policy: &RunPolicy) -> OutputLimits {
    let own = skill.manifest.resources.output_bytes.unwrap_or(u64::MAX);
    let OutputLimits { log_bytes, output_bytes, .. } = policy.output_limits;
    OutputLimits {
        log_bytes: log_bytes.min(own),
        output_bytes: output_bytes.min(own),
        ..policy.output_limits
    }
}
