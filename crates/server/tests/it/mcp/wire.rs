//! Messages of both generations of the protocol, as clients send them.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::Server;

pub(super) const ACCEPT: &str = "application/json, text/event-stream";
const VERSION: &str = "2026-07-28";

/// A request of the generation without sessions.
pub(super) fn message(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

pub(super) fn call(tool: &str, arguments: Value) -> Value {
    message("tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// The same with the headers that repeat what is in it.
pub(super) fn request(server: &Server, key: &str, message: &Value) -> RequestBuilder {
    let request = server.request_as(key, Method::POST, "/mcp").header("accept", ACCEPT);
    let request = request.header("mcp-protocol-version", VERSION).json(message);
    let Some(method) = message["method"].as_str() else { return request };
    let name = ["name", "uri"].into_iter().find_map(|field| message["params"][field].as_str());
    let request = request.header("mcp-method", method);
    name.into_iter().fold(request, |request, name| request.header("mcp-name", name))
}

/// The answer to a request, which comes last.
pub(super) async fn rpc(server: &Server, key: &str, method: &str, params: Value) -> Value {
    last(request(server, key, &message(method, params)).send().await.unwrap()).await
}

/// The result of a tool.
pub(super) async fn tool(server: &Server, key: &str, name: &str, arguments: Value) -> Value {
    let answer = last(request(server, key, &call(name, arguments)).send().await.unwrap()).await;
    assert!(answer["result"].is_object(), "{answer}");
    answer["result"].clone()
}

pub(super) async fn last(answer: Response) -> Value {
    let text = answer.text().await.unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let data = lines.rfind(|line| !line.is_empty()).unwrap_or(&text);
    serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The skills in the answer of `list_skills`.
pub(super) fn names(answer: &Value) -> Vec<&str> {
    let skills = answer["structuredContent"]["skills"].as_array().unwrap();
    skills.iter().map(|skill| skill["name"].as_str().unwrap()).collect()
}

/// A session of the older generation.
pub(super) struct Session<'a> {
    pub server: &'a Server,
    pub key: String,
    pub id: String,
}

impl Session<'_> {
    pub(super) async fn begin<'a>(server: &'a Server, key: &str) -> Session<'a> {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let request =
            server.request_as(key, Method::POST, "/mcp").header("accept", ACCEPT).json(&message);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(last(answer).await["result"]["protocolVersion"], "2025-06-18");
        let session = Session { server, key: key.to_owned(), id };
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.send(&ready).await.status(), 202);
        session
    }

    pub(super) async fn send(&self, message: &Value) -> Response {
        self.request(Method::POST).json(message).send().await.unwrap()
    }

    pub(super) fn request(&self, method: Method) -> RequestBuilder {
        let request = self.server.request_as(&self.key, method, "/mcp").header("accept", ACCEPT);
        request.header("mcp-session-id", &self.id).header("mcp-protocol-version", "2025-06-18")
    }

    /// Starts a call and gives back its answer as it comes.
    pub(super) async fn call(&self, id: u32, tool: &str, arguments: Value) -> Response {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
            .await;
        assert_eq!(answer.status(), 200);
        answer
    }
}
