//! Step three, plan: what runs, with which limits, on which files.
//!
//! `plan` itself is a pure function of the skill, the request and the server's policy. `plan_run`
//! adds the two checks that need more: the input against the skill's schema, which may take a
//! thread, and the input files, which are rows of the store. Whatever must be refused before it
//! costs a sandbox is refused here.

pub(crate) mod input_files;
mod job;
pub(crate) mod limits;
mod permissions;

use std::sync::Arc;

use sandbox::{Job, Shape, StreamedFile};
use skill::SkillScript;

use self::limits::RunLimits;
use super::accept::AcceptedRequest;
use super::schema_checks;
use super::stop::Stop;
use crate::runner::Runner;
use crate::{Request, RunPolicy};
use catalogue::LoadedSkill;

/// Scripts that an error message lists by name.
const MAX_LISTED_SCRIPTS: usize = 20;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub shape: Shape,
    pub job: Job,
    /// The path of the script inside the skill.
    pub script: String,
    /// Limits that were lowered to the allowed maximum, a sentence each.
    pub clamped: Vec<String>,
}

/// The whole step for an execution of a server.
pub(crate) async fn plan_run(
    runner: &Runner,
    accepted: &AcceptedRequest,
    skill: &Arc<LoadedSkill>,
) -> Result<Plan, Stop> {
    let request = &accepted.request;
    let plan = plan(skill, request, &runner.config.policy)?;
    schema_checks::check_input(runner, &accepted.tenant, skill, request.input_json()).await?;
    plan.with_inputs(input_files::find(runner, accepted).await?)
}

/// The pure part.
pub(crate) fn plan(
    skill: &LoadedSkill,
    request: &Request,
    policy: &RunPolicy,
) -> Result<Plan, Stop> {
    permissions::check(skill, request, policy)?;
    let script = choose_script(skill, request)?;
    let limits = RunLimits::new(&skill.manifest, request, policy);
    let shape = shape(skill, script, &limits, policy);
    let job = job::job(skill, script, request, &limits, policy);
    check_disk(job.files.iter().map(|file| file.bytes.len() as u64), &shape)?;
    Ok(Plan { shape, job, script: script.path.clone(), clamped: limits.clamped })
}

impl Plan {
    /// The same with the request's input files, none of which has been read yet.
    pub(crate) fn with_inputs(mut self, inputs: Vec<StreamedFile>) -> Result<Plan, Stop> {
        let files = self.job.files.iter().map(|file| file.bytes.len() as u64);
        check_disk(files.chain(inputs.iter().map(|file| file.size)), &self.shape)?;
        self.job.streamed = inputs;
        Ok(self)
    }
}

/// A script is chosen from the skill's own list, so a path can never point outside of it.
fn choose_script<'a>(skill: &'a LoadedSkill, request: &Request) -> Result<&'a SkillScript, Stop> {
    let Some(requested) = &request.script else {
        return skill.entrypoint.as_ref().ok_or_else(|| {
            Stop::refused(format!(
                "The skill has no default entrypoint; name one of its scripts: {}",
                list_scripts(&skill.scripts)
            ))
        });
    };
    let path = requested.strip_prefix("./").unwrap_or(requested);
    skill.scripts.iter().find(|script| script.path == path).ok_or_else(|| {
        Stop::refused(format!(
            "The skill has no script {path:?} that can run; it has: {}",
            list_scripts(&skill.scripts)
        ))
    })
}

fn list_scripts(scripts: &[SkillScript]) -> String {
    let listed: Vec<&str> =
        scripts.iter().take(MAX_LISTED_SCRIPTS).map(|script| script.path.as_str()).collect();
    match scripts.len().checked_sub(MAX_LISTED_SCRIPTS) {
        None if scripts.is_empty() => "none".to_owned(),
        None | Some(0) => listed.join(", "),
        Some(more) => format!("{} and {more} more", listed.join(", ")),
    }
}

fn shape(
    skill: &LoadedSkill,
    script: &SkillScript,
    limits: &RunLimits,
    policy: &RunPolicy,
) -> Shape {
    Shape {
        language: script.lang,
        // Only where images mean something; whether this one is allowed was checked before.
        image: policy.image_allowlist.as_ref().and(skill.manifest.image.clone()),
        memory_bytes: limits.memory_bytes,
        cpu_millis: limits.cpu_millis,
        pids: policy.pids,
        // The disk is memory and counts against its limit. With half of it a script that fills
        // the disk gets an error that it can handle, before the memory limit kills it.
        disk_bytes: limits.memory_bytes / 2,
        disk_inodes: policy.disk_inodes,
    }
}

fn check_disk(sizes: impl Iterator<Item = u64>, shape: &Shape) -> Result<(), Stop> {
    let total = sizes.fold(0, u64::saturating_add);
    if total > shape.disk_bytes {
        return Err(Stop::refused(format!(
            "The skill and its input take {total} bytes and its disk holds {}, half of its memory limit.",
            shape.disk_bytes
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
