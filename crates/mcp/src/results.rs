//! Answers to tool calls: text for the model, structured content for programs, links to files.

use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Value, json};

use crate::skills::{LoadedSkill, ProviderError, RunArtifact, RunResult, SkillPage};
use crate::uri;

/// What a model is told of a log; the whole of it stays with the execution.
const TAIL_BYTES: usize = 8 << 10;
/// What is repeated of each stream, and of an output document in text.
const STREAM_BYTES: usize = 64 << 10;
/// Links beside the text; the structured content names every file.
const MAX_LINKS: usize = 100;

/// An error that the model reads, as opposed to one of the protocol that only its program sees.
pub fn error(error: &ProviderError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.client_message())])
}

pub fn listed(page: &SkillPage) -> CallToolResult {
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
    let text =
        if lines.is_empty() { "There are no skills here.".to_owned() } else { lines.join("\n") };
    answered(text, json!({ "skills": skills, "next_cursor": page.next }))
}

pub fn loaded(skill: &LoadedSkill) -> CallToolResult {
    let manifest = &skill.manifest;
    let files: Vec<Value> = skill
        .files
        .iter()
        .map(|file| {
            json!({
                "path": file.path, "size_bytes": file.size, "uri": uri::of_skill_file(&manifest.name, &file.path),
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
    answered(text, structured)
}

/// A run that did not end well is an error that the model reads, with the end of the log.
pub fn ended(skill: &str, ended: RunResult) -> CallToolResult {
    let good = ended.status == "success";
    let mut content =
        vec![ContentBlock::text(if good { result_text(&ended) } else { failure_text(&ended) })];
    let links = ended.files.iter().take(MAX_LINKS).map(|file| link(&ended.execution_id, file));
    content.extend(links.map(ContentBlock::ResourceLink));
    let mut result =
        if good { CallToolResult::success(content) } else { CallToolResult::error(content) };
    result.structured_content = Some(structured(skill, ended));
    result
}

fn structured(skill: &str, ended: RunResult) -> Value {
    let files: Vec<Value> = ended
        .files
        .iter()
        .map(|file| {
            json!({
                "name": file.name, "size_bytes": file.size_bytes, "content_type": file.content_type,
                "sha256": file.sha256, "uri": uri::of_artifact(&ended.execution_id, &file.name), "url": file.url,
            })
        })
        .collect();
    let stream =
        |text: &Option<String>| text.as_deref().map(|text| tail(text, STREAM_BYTES).into_owned());
    json!({
        "execution_id": ended.execution_id, "skill": skill, "version": ended.skill_version, "digest": ended.digest,
        "status": ended.status, "outcome": ended.outcome, "exit_code": ended.exit_code,
        "duration_ms": ended.duration_ms, "error": ended.error, "stdout": stream(&ended.stdout),
        "stderr": stream(&ended.stderr), "output": ended.output, "files": files,
    })
}

/// The document where there is one, else what the script said.
fn result_text(ended: &RunResult) -> String {
    let said = [&ended.stdout, &ended.logs].into_iter().flatten().find(|text| !text.is_empty());
    match (&ended.output, said) {
        (Some(output), _) => head(&output.to_string(), STREAM_BYTES),
        (None, Some(said)) => tail(said, STREAM_BYTES).into_owned(),
        (None, None) => "The script ended well and said nothing.".to_owned(),
    }
}

fn failure_text(ended: &RunResult) -> String {
    let outcome = ended.outcome.as_deref().unwrap_or(&ended.status).replace('_', " ");
    let code = ended.exit_code.map(|code| format!(" with code {code}")).unwrap_or_default();
    let error = ended.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let both = [ended.stdout.as_deref(), ended.stderr.as_deref()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .concat();
    let log = ended.logs.as_deref().filter(|logs| !logs.is_empty()).unwrap_or(&both);
    match log.is_empty() {
        true => format!("The run failed ({outcome}{code}){error}"),
        false => format!(
            "The run failed ({outcome}{code}){error}\n\nThe end of its log:\n{}",
            tail(log, TAIL_BYTES)
        ),
    }
}

/// A name to be read through this protocol, which every client can; not every one can follow a URL.
fn link(execution: &str, file: &RunArtifact) -> Resource {
    let mut link = Resource::new(uri::of_artifact(execution, &file.name), file.name.clone())
        .with_size(file.size_bytes);
    link.mime_type.clone_from(&file.content_type);
    link
}

fn answered(text: String, structured: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(structured);
    result
}

fn tail(text: &str, bytes: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= bytes {
        return text.into();
    }
    let from = (text.len() - bytes..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    format!("[the beginning is left out]\n{}", &text[from..]).into()
}

fn head(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let to = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n[the rest is left out; the structured content has all of it]", &text[..to])
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
        let logs = format!("{}\nthe last line: ü\n", "x".repeat(TAIL_BYTES));
        let run = RunResult {
            status: "failed".into(),
            outcome: Some("out_of_memory".into()),
            exit_code: Some(137),
            logs: Some(logs),
            ..RunResult::default()
        };
        let result = ended("s", run);
        assert_eq!(result.is_error, Some(true));
        let text = text(&result);
        assert!(text.starts_with("The run failed (out of memory with code 137)"), "{text}");
        assert!(text.ends_with("the last line: ü\n") && text.len() < TAIL_BYTES + 200);
    }

    #[test]
    fn a_good_run_gives_its_document_and_links() {
        let file = RunArtifact { name: "a b.txt".into(), size_bytes: 3, ..RunArtifact::default() };
        let run = RunResult {
            execution_id: "e".into(),
            status: "success".into(),
            output: Some(json!({ "n": 1 })),
            files: vec![file],
            ..RunResult::default()
        };
        let result = ended("s", run);
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
    fn links_are_bounded_and_names_are_not() {
        let files = (0..MAX_LINKS + 5)
            .map(|n| RunArtifact { name: n.to_string(), ..RunArtifact::default() })
            .collect();
        let result =
            ended("s", RunResult { status: "success".into(), files, ..RunResult::default() });
        assert_eq!(result.content.len(), MAX_LINKS + 1);
        let structured = result.structured_content.expect("structured");
        assert_eq!(structured["files"].as_array().map(Vec::len), Some(MAX_LINKS + 5));
    }

    #[test]
    fn cuts_fall_between_characters() {
        assert!(tail("üüü", 3).ends_with("\nü"));
        assert!(head("üüü", 3).starts_with("ü\n"));
    }
}
