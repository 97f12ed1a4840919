//! Results of tool calls: text for the model, structured content for programs, links to files.

use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Value, json};

use crate::provider::{LoadedSkill, RunArtifact, RunResult, SkillPage};
use crate::provider_error::ProviderError;
use crate::uri;

/// The part of a failed run's log that a model gets; the execution keeps all of it.
const MAX_LOG_TAIL_BYTES: usize = 8 << 10;
/// The part of each stream, and of an output document as text, that a result repeats.
const MAX_STREAM_BYTES: usize = 64 << 10;
/// Links in the content; the structured content names every file.
const MAX_LINKS: usize = 100;

/// A failed tool call, which the model reads, as opposed to a protocol error for its program.
pub(crate) fn tool_error(error: &ProviderError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.client_message())])
}

pub(crate) fn skill_list(page: &SkillPage) -> CallToolResult {
    let skills: Vec<Value> = page
        .skills
        .iter()
        .map(|skill| {
            json!({
                "name": skill.name, "version": skill.version, "description": skill.description,
                "runnable": skill.entrypoint.is_some(),
            })
        })
        .collect();
    let lines: Vec<String> =
        page.skills.iter().map(|skill| format!("{}: {}", skill.name, skill.description)).collect();
    let text = if lines.is_empty() { "There are no skills.".to_owned() } else { lines.join("\n") };
    tool_result(text, json!({ "skills": skills, "next_cursor": page.next }))
}

pub(crate) fn loaded_skill(skill: &LoadedSkill) -> CallToolResult {
    let manifest = &skill.manifest;
    let files: Vec<Value> = skill
        .files
        .iter()
        .map(|file| {
            json!({
                "path": file.path, "size_bytes": file.size, "uri": uri::skill_file_uri(&manifest.name, &file.path),
            })
        })
        .collect();
    let scripts: Vec<Value> = skill
        .scripts
        .iter()
        .map(|script| json!({ "path": script.path, "lang": script.lang }))
        .collect();
    let paths =
        |paths: Vec<&str>| if paths.is_empty() { "none".to_owned() } else { paths.join(", ") };
    let text = format!(
        "# {} {}\n{}\n\n{}\n\nFiles: {}\nScripts: {}\nEntrypoint: {}",
        manifest.name,
        manifest.version,
        manifest.description,
        manifest.instructions,
        paths(skill.files.iter().map(|file| file.path.as_str()).collect()),
        paths(skill.scripts.iter().map(|script| script.path.as_str()).collect()),
        skill.entrypoint.as_deref().unwrap_or("none"),
    );
    let structured = json!({
        "name": manifest.name, "version": manifest.version, "description": manifest.description,
        "instructions": manifest.instructions, "entrypoint": skill.entrypoint, "files": files, "scripts": scripts,
        "input_schema": manifest.input_schema, "output_schema": manifest.output_schema, "digest": skill.digest,
    });
    tool_result(text, structured)
}

/// A failed run is a failed tool call: the model reads the error and the end of the log.
pub(crate) fn run_result(skill: &str, run: RunResult) -> CallToolResult {
    let succeeded = run.status == "success";
    let text = if succeeded { success_text(&run) } else { failure_text(&run) };
    let mut content = vec![ContentBlock::text(text)];
    let links = run.files.iter().take(MAX_LINKS).map(|file| link(&run.execution_id, file));
    content.extend(links.map(ContentBlock::ResourceLink));
    let mut result =
        if succeeded { CallToolResult::success(content) } else { CallToolResult::error(content) };
    result.structured_content = Some(structured(skill, run));
    result
}

fn structured(skill: &str, run: RunResult) -> Value {
    let files: Vec<Value> = run
        .files
        .iter()
        .map(|file| {
            json!({
                "name": file.name, "size_bytes": file.size_bytes, "content_type": file.content_type,
                "sha256": file.sha256, "uri": uri::artifact_uri(&run.execution_id, &file.name), "url": file.url,
            })
        })
        .collect();
    let stream = |text: &Option<String>| {
        text.as_deref().map(|text| tail(text, MAX_STREAM_BYTES).into_owned())
    };
    json!({
        "execution_id": run.execution_id, "skill": skill, "version": run.skill_version, "digest": run.digest,
        "status": run.status, "outcome": run.outcome, "exit_code": run.exit_code,
        "duration_ms": run.duration_ms, "error": run.error, "stdout": stream(&run.stdout),
        "stderr": stream(&run.stderr), "output": run.output, "files": files,
    })
}

/// The output document if there is one, otherwise the text that the script printed.
fn success_text(run: &RunResult) -> String {
    let printed = [&run.stdout, &run.logs].into_iter().flatten().find(|text| !text.is_empty());
    match (&run.output, printed) {
        (Some(output), _) => head(&output.to_string(), MAX_STREAM_BYTES),
        (None, Some(printed)) => tail(printed, MAX_STREAM_BYTES).into_owned(),
        (None, None) => "The script succeeded without output.".to_owned(),
    }
}

fn failure_text(run: &RunResult) -> String {
    let outcome = run.outcome.as_deref().unwrap_or(&run.status).replace('_', " ");
    let code = run.exit_code.map(|code| format!(" with code {code}")).unwrap_or_default();
    let error = run.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    // Runs with separate streams have no interleaved log.
    let streams = [run.stdout.as_deref(), run.stderr.as_deref()];
    let streams = streams.into_iter().flatten().collect::<Vec<_>>().concat();
    let log = run.logs.as_deref().filter(|logs| !logs.is_empty()).unwrap_or(&streams);
    match log.is_empty() {
        true => format!("The run failed ({outcome}{code}){error}"),
        false => format!(
            "The run failed ({outcome}{code}){error}\n\nThe end of its log:\n{}",
            tail(log, MAX_LOG_TAIL_BYTES)
        ),
    }
}

/// A link that is read through this protocol: not every client can download a URL.
fn link(execution: &str, file: &RunArtifact) -> Resource {
    let mut link = Resource::new(uri::artifact_uri(execution, &file.name), file.name.clone())
        .with_size(file.size_bytes);
    link.mime_type.clone_from(&file.content_type);
    link
}

fn tool_result(text: String, structured: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(structured);
    result
}

fn tail(text: &str, bytes: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= bytes {
        return text.into();
    }
    let start = (text.len() - bytes..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    format!("[the beginning is omitted]\n{}", &text[start..]).into()
}

fn head(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n[the rest is omitted; the structured content has all of it]", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: &CallToolResult) -> String {
        match &result.content[0] {
            ContentBlock::Text(text) => text.text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failed_run_is_an_error_with_the_end_of_its_log() {
        let logs = format!("{}\nthe last line: ü\n", "x".repeat(MAX_LOG_TAIL_BYTES));
        let run = RunResult {
            status: "failed".into(),
            outcome: Some("out_of_memory".into()),
            exit_code: Some(137),
            logs: Some(logs),
            ..RunResult::default()
        };
        let result = run_result("s", run);
        assert_eq!(result.is_error, Some(true));
        let text = text(&result);
        assert!(text.starts_with("The run failed (out of memory with code 137)"), "{text}");
        assert!(text.ends_with("the last line: ü\n") && text.len() < MAX_LOG_TAIL_BYTES + 200);
    }

    #[test]
    fn a_successful_run_has_its_output_document_and_links() {
        let file = RunArtifact { name: "a b.txt".into(), size_bytes: 3, ..RunArtifact::default() };
        let run = RunResult {
            execution_id: "e".into(),
            status: "success".into(),
            output: Some(json!({ "n": 1 })),
            files: vec![file],
            ..RunResult::default()
        };
        let result = run_result("s", run);
        assert_eq!((result.is_error, text(&result).as_str()), (Some(false), r#"{"n":1}"#));
        let ContentBlock::ResourceLink(link) = &result.content[1] else {
            panic!("{:?}", result.content)
        };
        assert_eq!((link.uri.as_str(), link.size), ("execution://e/a%20b.txt", Some(3)));
        let structured = result.structured_content.expect("structured");
        assert_eq!(structured["output"], json!({ "n": 1 }));
        assert_eq!(structured["files"][0]["uri"], "execution://e/a%20b.txt");
    }

    #[test]
    fn links_are_capped_and_structured_content_names_every_file() {
        let files = (0..MAX_LINKS + 5)
            .map(|n| RunArtifact { name: n.to_string(), ..RunArtifact::default() })
            .collect();
        let result =
            run_result("s", RunResult { status: "success".into(), files, ..RunResult::default() });
        assert_eq!(result.content.len(), MAX_LINKS + 1);
        let structured = result.structured_content.expect("structured");
        assert_eq!(structured["files"].as_array().map(Vec::len), Some(MAX_LINKS + 5));
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert!(tail("üüü", 3).ends_with("\nü"));
        assert!(head("üüü", 3).starts_with("ü\n"));
    }
}
