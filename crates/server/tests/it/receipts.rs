//! Receipts over HTTP: the same bytes on every read, genuine by the public key alone.

use serde_json::{Value, json};
use skill::signature::{PublicKey, seal};

use crate::support::{Server, launch, refused};

const KIND: &str = "skillbox receipt 1";

async fn keys(server: &Server) -> Value {
    // Nobody needs a key of the API to read it.
    let answer = server.http.get(format!("{}/v1/receipts/key", server.url)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

fn public(key: &Value) -> PublicKey {
    key["public_key"].as_str().unwrap().parse().unwrap()
}

async fn receipt(server: &Server, id: &Value) -> String {
    let path = format!("/v1/executions/{}/receipt", id.as_str().unwrap());
    let answer = server.get(&path).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/json");
    answer.text().await.unwrap()
}

#[tokio::test]
async fn a_receipt_is_genuine_and_no_byte_of_it_can_be_another() {
    let server = Server::start().await;
    server.publish_bash("demo", "echo '{\"a\":1}' > $SANDBOX_OUTPUT\n").await;
    let run = server.run(json!({ "skill": "demo", "input": {} })).await;
    let text = receipt(&server, &run["execution_id"]).await;
    assert_eq!(receipt(&server, &run["execution_id"]).await, text);
    let keys = [public(&keys(&server).await)];
    let opened = seal::open(&text, KIND, &keys).unwrap();
    let payload: Value = serde_json::from_str(&opened.payload).unwrap();
    assert_eq!(payload["skill"]["digest"], run["digest"]);
    assert_eq!(payload["isolation"], run["isolation"]);
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1 << (at % 8);
        let genuine =
            String::from_utf8(bytes).is_ok_and(|changed| seal::open(&changed, KIND, &keys).is_ok());
        assert!(!genuine, "byte {at}");
    }
}

#[tokio::test]
async fn what_has_no_receipt_says_so() {
    let server = Server::start().await;
    for id in ["x", "0190c0de-0000-7000-8000-000000000000"] {
        let answer = server.get(&format!("/v1/executions/{id}/receipt")).send().await.unwrap();
        refused(answer, 404, "not_found").await;
    }
    server.publish_bash("slow", "sleep 600\n").await;
    let body = json!({ "skill": "slow", "mode": "async" });
    let run: Value =
        server.post("/v1/executions", &body).send().await.unwrap().json().await.unwrap();
    let path = format!("/v1/executions/{}", run["execution_id"].as_str().unwrap());
    refused(server.get(&format!("{path}/receipt")).send().await.unwrap(), 409, "conflict").await;
    server.post(&format!("{path}/cancel"), &json!({})).send().await.unwrap();
}

#[tokio::test]
async fn the_key_outlives_the_process_and_can_be_changed() {
    let server = Server::start().await;
    server.publish_bash("demo", "true\n").await;
    let run = server.run(json!({ "skill": "demo" })).await;
    let text = receipt(&server, &run["execution_id"]).await;
    let first = keys(&server).await;
    assert_eq!(first["previous"], json!([]));
    let data = server.data.clone();
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();

    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let (addr, _, stop, task) = launch(&data, &[("receipt_key_generation", "2")]).await.unwrap();
    let second: Value = http
        .get(format!("http://{addr}/v1/receipts/key"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    stop.cancel();
    task.await.unwrap().unwrap();
    assert_ne!(second["key_id"], first["key_id"]);
    let earlier = public(&second["previous"][0]);
    assert_eq!(earlier, public(&first));
    seal::open(&text, KIND, &[public(&second), earlier]).unwrap();
}
