//! The files that are generated from the code and committed. `UPDATE=1 cargo test -p server` writes
//! them again.

use std::path::PathBuf;

use crate::support::Server;

fn compare(path: &str, generated: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    #[expect(clippy::disallowed_methods, reason = "the switch that rewrites the committed files")]
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{} is out of date: run `make openapi` and commit it",
        path.display()
    );
}

#[test]
fn openapi_json_is_current() {
    compare("openapi.json", &server::openapi_json());
}

#[test]
fn the_configuration_reference_is_current() {
    compare("docs/configuration.md", &server::config::reference_markdown());
}

#[test]
fn the_api_page_lists_every_error() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md")).unwrap();
    for slug in server::Slug::ALL {
        let row = format!("| {} | `{}` |", slug.status().as_u16(), slug.as_str());
        assert!(page.contains(&row), "docs/api.md lacks {row}");
    }
}

#[test]
fn the_description_spells_errors_as_they_are_sent() {
    let api: serde_json::Value = serde_json::from_str(&server::openapi_json()).unwrap();
    let sent: Vec<&str> = server::Slug::ALL.iter().map(|slug| slug.as_str()).collect();
    assert_eq!(api["components"]["schemas"]["Slug"]["enum"], serde_json::json!(sent));
}

#[tokio::test]
async fn the_server_serves_its_description_and_a_page_that_loads_nothing_from_elsewhere() {
    let server = Server::start().await;
    let served = server.http.get(format!("{}/openapi.json", server.url)).send().await.unwrap();
    assert_eq!(served.headers()["content-type"], "application/json");
    let served = served.text().await.unwrap();
    let committed: serde_json::Value = serde_json::from_str(&server::openapi_json()).unwrap();
    assert_eq!(served, committed.to_string(), "compact, and the same");
    for path in ["/docs", "/docs/docs.css", "/docs/docs.js"] {
        let answer = server.http.get(format!("{}{path}", server.url)).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        if path == "/docs" {
            let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
            assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        }
        let text = answer.text().await.unwrap();
        assert!(
            !text.contains("http://") && !text.contains("https://") && !text.contains("innerHTML"),
            "{path}"
        );
        assert!(
            !text.contains("onclick=") && !text.contains("<style") && !text.contains("style="),
            "{path}"
        );
    }
}

#[test]
fn every_operation_documents_its_errors_and_is_version_3_1() {
    let api: serde_json::Value = serde_json::from_str(&server::openapi_json()).unwrap();
    assert_eq!(api["openapi"], "3.1.0");
    let mut names = std::collections::BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        assert!(!path.contains('*'), "{path}");
        for (verb, operation) in item.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            assert!(operation["summary"].is_string(), "{verb} {path} has no summary");
            assert!(
                names.insert(operation["operationId"].as_str().unwrap()),
                "{verb} {path}: the name is taken"
            );
            assert!(
                answers.values().all(|answer| answer["description"].is_string()),
                "{verb} {path}"
            );
            assert!(answers.contains_key("500"), "{verb} {path}");
            let open = operation["security"].is_array();
            assert_eq!(answers.contains_key("401"), !open, "{verb} {path}");
        }
    }
}
