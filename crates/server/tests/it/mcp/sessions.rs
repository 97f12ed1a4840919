//! Sessions of the older generation: whose they are.

use serde_json::{Value, json};

use super::wire::{Session, last};
use crate::support::{Server, refused};

#[tokio::test]
async fn a_session_belongs_to_the_key_that_began_it() {
    let server = Server::start().await;
    let (other_key, _) = server.key(json!({ "name": "o", "scopes": ["read", "execute"] })).await;
    let other_tenant = server.tenant("other").await;
    let session = Session::begin(&server, &server.key).await;
    let listing = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    for key in [other_key, other_tenant] {
        let stolen = Session { server: &server, key, id: session.id.clone() };
        refused(stolen.send(&listing).await, 404, "not_found").await;
        refused(stolen.request(reqwest::Method::GET).send().await.unwrap(), 404, "not_found").await;
        refused(stolen.request(reqwest::Method::DELETE).send().await.unwrap(), 404, "not_found")
            .await;
    }
    let unknown = Session { server: &server, key: server.key.clone(), id: "made-up".to_owned() };
    refused(unknown.send(&listing).await, 404, "not_found").await;
    let tools = last(session.send(&listing).await).await;
    assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(4), "{tools}");
}

#[tokio::test]
async fn a_session_says_what_it_does_not_know() {
    let server = Server::start().await;
    let session = Session::begin(&server, &server.key).await;
    let ask = async |method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        last(session.send(&message).await).await["error"]["code"].clone()
    };
    assert_eq!(ask("no/such", json!({})).await, -32601);
    assert_eq!(ask("tools/call", json!({ "arguments": {} })).await, -32602);
    assert_eq!(ask("skills/get", json!({ "uri": "skill://none/SKILL.md" })).await, -32602);
    assert_eq!(ask("skills/get", json!({ "uri": "skill://a/../../etc/passwd" })).await, -32602);
}
