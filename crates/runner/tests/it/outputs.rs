//! What becomes of `output.json`, whatever a script writes there.

use store::{Execution, Status};

use crate::support::Bench;

async fn run(frontmatter: &str, script: &str) -> Execution {
    let bench = Bench::new().await;
    let skill_md = format!("---\nname: demo\ndescription: A demonstration.\n{frontmatter}---\n");
    bench.publish(&[("SKILL.md", &skill_md), ("main.sh", script)]).await;
    bench.run(r#"{"skill":"demo"}"#).await
}

const SCHEMA: &str =
    "output_schema: {type: object, required: [n], properties: {n: {type: integer}}}\n";

#[tokio::test]
async fn what_is_not_json_is_absent_and_no_failure() {
    for written in ["not json", "", "{\"a\":", "\\xff", "[1] [2]"] {
        let run = run("", &format!("printf '{written}' > $SANDBOX_OUTPUT")).await;
        assert_eq!((run.status, run.output, run.error), (Status::Success, None, None), "{written}");
    }
}

#[tokio::test]
async fn a_million_levels_are_absent_and_harm_nobody() {
    let run = run("", "head -c 400000 /dev/zero | tr '\\0' '[' > $SANDBOX_OUTPUT").await;
    assert_eq!((run.status, run.output), (Status::Success, None));
    let script = "a=$(head -c 400000 /dev/zero | tr '\\0' '['); b=$(echo $a | tr '[' ']'); echo \"$a$b\" > $SANDBOX_OUTPUT";
    let run = self::run("", script).await;
    assert_eq!((run.status, run.output), (Status::Success, None));
}

#[tokio::test]
async fn too_large_is_an_outcome() {
    let run = run("", "head -c 3000000 /dev/zero | tr '\\0' 1 > $SANDBOX_OUTPUT").await;
    assert_eq!(
        (run.status, run.outcome.as_deref(), run.output),
        (Status::Failed, Some("output_too_large"), None)
    );
    assert!(run.error.is_some_and(|error| error.contains("1048576")));
}

#[tokio::test]
async fn a_failed_script_keeps_its_output() {
    let run = run("", "echo '{\"n\": 1}' > $SANDBOX_OUTPUT; exit 7").await;
    assert_eq!((run.status, run.output.as_deref()), (Status::Failed, Some(r#"{"n":1}"#)));
}

#[tokio::test]
async fn a_declared_schema_is_enforced() {
    let good = run(SCHEMA, "echo '{\"n\": 1}' > $SANDBOX_OUTPUT").await;
    assert_eq!((good.status, good.error), (Status::Success, None));

    let wrong = run(SCHEMA, "echo '{\"n\": \"one\"}' > $SANDBOX_OUTPUT").await;
    assert_eq!((wrong.status, wrong.outcome.as_deref()), (Status::Failed, Some("exited")));
    assert!(wrong.error.as_ref().is_some_and(|error| error.contains("#/n: ")), "{:?}", wrong.error);
    assert_eq!(wrong.output.as_deref(), Some(r#"{"n":"one"}"#));

    for script in ["true", "echo nonsense > $SANDBOX_OUTPUT"] {
        let missing = run(SCHEMA, script).await;
        assert_eq!((missing.status, missing.output), (Status::Failed, None));
        assert!(missing.error.is_some_and(|error| error.contains("output_schema")));
    }
}
