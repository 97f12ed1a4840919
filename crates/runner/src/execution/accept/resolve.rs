//! From a request to the version of the skill that it means.

use catalogue::reason_not_runnable;
use store::{Store, TenantId};
use uuid::Uuid;

use super::validation::validate;
use super::{AcceptedRequest, Stop};
use crate::execution::plan::input_files;
use crate::request::LATEST;
use crate::{Caller, Request, RunError};

/// The request as an execution of one version of a skill, with a refusal if that may not run.
pub(super) async fn resolve(
    store: &Store,
    caller: &Caller,
    request: Request,
) -> Result<AcceptedRequest, RunError> {
    if caller.skills.as_ref().is_some_and(|allowed| !allowed.contains(&request.skill)) {
        return Err(RunError::ScopeSkill);
    }
    let request = validate(request)?;
    let hidden = hidden_input(store, caller, &request).await?;
    // Taken before the lookup: the caller cannot have meant a version that is published later.
    let accepted_at = store::now();
    let found = store.find_skill(&caller.tenant, &request.skill, &request.version).await?;
    let idempotent = found.as_ref().is_some_and(|head| head.idempotent);
    let (skill_version, digest, refusal) = match found {
        Some(head) => {
            let held = reason_not_runnable(head.status, &head.name, &head.version);
            (head.version, head.digest, held.map(Stop::refused).or(hidden))
        }
        None if request.version == LATEST => return Err(RunError::UnknownSkill),
        // The skill may exist, so the caller gets an execution that says which version is missing.
        None => {
            let refusal = format!("Skill {} has no version {}.", request.skill, request.version);
            (request.version.clone(), String::new(), Some(Stop::refused(refusal)))
        }
    };
    Ok(AcceptedRequest {
        id: Uuid::now_v7(),
        tenant: caller.tenant.clone(),
        key_id: caller.key_id,
        skill_name: request.skill.clone(),
        skill_version,
        digest,
        request,
        idempotent,
        refusal,
        accepted_at,
    })
}

/// A key that is restricted to some skills must not read what other skills wrote, and an artifact
/// as an input file would be a way to do so. To such a key the file does not exist.
async fn hidden_input(
    store: &Store,
    caller: &Caller,
    request: &Request,
) -> Result<Option<Stop>, RunError> {
    let Some(allowed) = &caller.skills else { return Ok(None) };
    for id in &request.input_files {
        let Ok(file_id) = Uuid::try_parse(id) else { continue };
        if !may_read(store, &caller.tenant, allowed, file_id).await? {
            return Ok(Some(input_files::not_found(id)));
        }
    }
    Ok(None)
}

/// Whether a file is an upload, or an artifact of one of these skills.
async fn may_read(
    store: &Store,
    tenant: &TenantId,
    allowed: &[String],
    file_id: Uuid,
) -> Result<bool, RunError> {
    let file = store.get_file(tenant, file_id).await?;
    let Some(execution_id) = file.and_then(|file| file.execution_id) else { return Ok(true) };
    let execution = store.get_execution_summary(tenant, execution_id).await?;
    Ok(execution.is_some_and(|execution| allowed.contains(&execution.skill_name)))
}
