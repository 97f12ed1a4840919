//! Artifacts and their self-authenticating URLs.

use std::io::Read;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Server, refused};

const PAGE: &str = "<script>alert(1)</script>";

async fn run(server: &Server) -> Value {
    let script = format!(
        "printf '{PAGE}' > \"$SANDBOX_FILES_DIR/page.html\"; mkdir \"$SANDBOX_FILES_DIR/ä b\"; printf 2 > \"$SANDBOX_FILES_DIR/ä b/c#d?.txt\"\n"
    );
    server.publish_bash("page", &script).await;
    server.run(json!({ "skill": "page" })).await
}

#[tokio::test]
async fn files_are_listed_and_downloaded_so_that_no_browser_runs_them() {
    let server = Server::start().await;
    let run = run(&server).await;
    let id = run["execution_id"].as_str().unwrap();
    let rows: Vec<Value> = server
        .get(&format!("/v1/executions/{id}/files"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["page.html", "ä b/c#d?.txt"]);
    let direct = server.get(&format!("/v1/executions/{id}/files/page.html")).send().await.unwrap();
    let signed = server.http.get(rows[0]["url"].as_str().unwrap()).send().await.unwrap();
    for answer in [direct, signed] {
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-security-policy"], "sandbox; default-src 'none'");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers()["content-length"], PAGE.len().to_string());
        let disposition = answer.headers()["content-disposition"].to_str().unwrap();
        assert!(disposition.starts_with("attachment; filename=\"page.html\""), "{disposition}");
        assert_eq!(answer.text().await.unwrap(), PAGE);
    }
    let odd = server
        .get(&format!("/v1/executions/{id}/files/%C3%A4%20b/c%23d%3F.txt"))
        .send()
        .await
        .unwrap();
    assert_eq!(odd.text().await.unwrap(), "2");
    for path in ["nothing", "..%2fpage.html", "%2e%2e/page.html", "page.html/", "%00"] {
        let answer = server.get(&format!("/v1/executions/{id}/files/{path}")).send().await.unwrap();
        refused(answer, 404, "not_found").await;
    }
}

#[tokio::test]
async fn one_url_carries_all_files() {
    let server = Server::start().await;
    let run = run(&server).await;
    let url = run["files_url"].as_str().unwrap();
    assert!(url.starts_with(&server.url), "{url}");
    let answer = server.http.get(url).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/gzip");
    let bytes = answer.bytes().await.unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    let mut names = Vec::new();
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        names.push((entry.path().unwrap().display().to_string(), text));
    }
    assert_eq!(
        names,
        [("page.html".to_owned(), PAGE.to_owned()), ("ä b/c#d?.txt".into(), "2".into())]
    );
    let head = server.http.head(url).send().await.unwrap();
    assert_eq!(
        (head.status().as_u16(), head.headers()["content-length"].to_str().unwrap()),
        (200, &*bytes.len().to_string())
    );
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let answer = server.http.request(method, url).send().await.unwrap();
        refused(answer, 405, "method_not_allowed").await;
    }
}

#[tokio::test]
async fn an_altered_url_is_worthless() {
    let server = Server::start().await;
    let run = run(&server).await;
    let url = run["files"][0]["url"].as_str().unwrap();
    let (base, token) = url.rsplit_once('/').unwrap();
    for at in (0..token.len()).step_by(token.len() / 24) {
        let mut bytes = token.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let altered = format!("{base}/{}", String::from_utf8(bytes).unwrap());
        refused(server.http.get(altered).send().await.unwrap(), 403, "forbidden").await;
    }
    for token in [&token[1..], &token[..token.len() - 4], &format!("{token}AAAA")] {
        refused(server.http.get(format!("{base}/{token}")).send().await.unwrap(), 403, "forbidden")
            .await;
    }
    // Another installation's signature says nothing here.
    let other = Server::start().await;
    refused(
        other.http.get(format!("{}/v1/blobs/{token}", other.url)).send().await.unwrap(),
        403,
        "forbidden",
    )
    .await;
}

#[tokio::test]
async fn urls_expire_and_are_made_afresh() {
    let server = Server::with(&[("url_ttl", "2s")]).await;
    let run = run(&server).await;
    let url = run["files_url"].as_str().unwrap();
    // Validity is counted in whole seconds, up.
    tokio::time::sleep(std::time::Duration::from_millis(3100)).await;
    refused(server.http.get(url).send().await.unwrap(), 403, "forbidden").await;
    let path = format!("/v1/executions/{}", run["execution_id"].as_str().unwrap());
    let again: Value = server.get(&path).send().await.unwrap().json().await.unwrap();
    let fresh = again["files_url"].as_str().unwrap();
    assert_ne!(fresh, url);
    assert_eq!(server.http.get(fresh).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn urls_point_at_the_host_the_caller_used_or_the_public_one() {
    let server = Server::start().await;
    let body = run(&server).await;
    let path = format!("/v1/executions/{}", body["execution_id"].as_str().unwrap());
    let named = server.get(&path).header("host", "skills.example.com:81").send().await.unwrap();
    let url = named.json::<Value>().await.unwrap()["files_url"].as_str().unwrap().to_owned();
    assert!(url.starts_with("http://skills.example.com:81/v1/blobs/"), "{url}");
    let public = Server::with(&[("public_url", "https://skills.example.com/box/")]).await;
    let url = run(&public).await["files_url"].as_str().unwrap().to_owned();
    assert!(url.starts_with("https://skills.example.com/box/v1/blobs/"), "{url}");
}
