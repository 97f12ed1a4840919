//! Checks documents against a skill's schemas: the input before it costs a sandbox, the output after
//! the run.
//!
//! Quick checks run in the calling task; all others run on the schema workers, which have a timeout
//! and are shared fairly between tenants.

use std::sync::Arc;

use bytes::Bytes;
use catalogue::{Schema, WorkersBusy};
use store::TenantId;

use crate::execution::stop::Stop;
use crate::json;
use crate::runner::Runner;
use catalogue::LoadedSkill;

/// The output document, and its violations of the skill's output schema, if it has one.
#[derive(Debug, Default)]
pub(crate) struct CheckedOutput {
    pub output: Option<String>,
    pub problem: Option<String>,
}

/// Refuses an input that does not match the schema, or that would cost too much to check.
pub(crate) async fn check_input(
    runner: &Runner,
    tenant: &TenantId,
    skill: &Arc<LoadedSkill>,
    input: &str,
) -> Result<(), Stop> {
    let Some(schema) = &skill.input_schema else { return Ok(()) };
    if schema.is_quick(input) {
        return check_input_here(skill, input).map_err(Stop::refused);
    }
    let (skill, input) = (Arc::clone(skill), input.to_owned());
    let checked = runner
        .catalogue
        .schema_workers()
        .run(tenant, move || check_input_here(&skill, &input))
        .await;
    checked
        .map_err(|WorkersBusy| Stop::unready("The input could not be checked in time."))?
        .map_err(Stop::refused)
}

/// The same in the calling thread.
pub(crate) fn check_input_here(skill: &LoadedSkill, input: &str) -> Result<(), String> {
    let Some(schema) = &skill.input_schema else { return Ok(()) };
    let checked = schema.check(input);
    checked.map_err(|violations| {
        format!("The input does not match the skill's input_schema: {violations}")
    })
}

pub(crate) async fn check_output(
    runner: &Runner,
    tenant: &TenantId,
    output: Option<Bytes>,
    skill: &Arc<LoadedSkill>,
) -> CheckedOutput {
    let quick = |schema: &Schema| {
        let text = output.as_deref().map(std::str::from_utf8).and_then(Result::ok);
        text.is_none_or(|text| schema.is_quick(text))
    };
    if skill.output_schema.as_ref().is_none_or(quick) {
        return check_output_here(output.as_deref(), skill);
    }
    let kept = output.clone();
    let checking = Arc::clone(skill);
    let checked = runner
        .catalogue
        .schema_workers()
        .run(tenant, move || check_output_here(output.as_deref(), &checking))
        .await;
    checked.unwrap_or_else(|WorkersBusy| CheckedOutput {
        output: kept.and_then(|document| json::compact(&document).ok()),
        problem: Some(
            "The output could not be checked against the skill's output_schema in time.".to_owned(),
        ),
    })
}

/// The same in the calling thread.
pub(crate) fn check_output_here(output: Option<&[u8]>, skill: &LoadedSkill) -> CheckedOutput {
    let document = output.map(json::compact).transpose();
    let Some(schema) = &skill.output_schema else {
        return CheckedOutput { output: document.ok().flatten(), problem: None };
    };
    match document {
        Ok(Some(document)) => {
            let violations = schema.check(&document).err();
            let problem = violations.map(|violations| {
                format!("The output does not match the skill's output_schema: {violations}")
            });
            CheckedOutput { output: Some(document), problem }
        }
        Ok(None) => CheckedOutput {
            output: None,
            problem: Some(
                "The script wrote no output.json, and the skill declares an output_schema."
                    .to_owned(),
            ),
        },
        Err(not_json) => CheckedOutput {
            output: None,
            problem: Some(format!(
                "The script's output.json {not_json}, and the skill declares an output_schema."
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_that_violates_the_schema_is_refused_with_json_pointers() {
        let skill_md = "---\nname: demo\ndescription: A demonstration.\ninput_schema:\n  type: object\n  \
            required: [text]\n  properties:\n    text: {type: string}\n---\n";
        let parts = vec![("SKILL.md".to_owned(), skill_md.as_bytes().to_vec())];
        let package = skill::read_parts(parts, &skill::PackageLimits::default()).expect("a skill");
        let skill = LoadedSkill::compile(package).expect("a good schema");
        let refused = "The input does not match the skill's input_schema: #/text: value is not of type \"string\"";
        assert_eq!(check_input_here(&skill, r#"{"text":5}"#), Err(refused.to_owned()));
        assert_eq!(check_input_here(&skill, r#"{"text":"five"}"#), Ok(()));
    }
}
