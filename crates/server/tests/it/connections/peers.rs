//! What one address may take: connections, and failed attempts to authenticate.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::{Client, Response};

use super::{answer, rest, wire};
use crate::support::{Server, refused, until};

#[tokio::test]
async fn one_address_cannot_take_every_connection() {
    let share = [("max_connections", "8"), ("max_connections_per_peer", "3")];
    let server = Server::with(&share).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(wire::connect_from(&server, "127.0.0.2").await);
    }
    // A refusal is the first thing that the server says to a connection of which it has read
    // nothing.
    let refusal = rest(&mut wire::connect_from(&server, "127.0.0.2").await).await;
    assert!(refusal.starts_with("HTTP/1.1 429") && refusal.contains("\"too_busy\""), "{refusal}");
    assert!(refusal.to_lowercase().contains("retry-after: 1\r\n"), "{refusal}");
    assert!(
        answer(&server, "127.0.0.3").await.starts_with("HTTP/1.1 200"),
        "another address has its own share"
    );
    let metrics = server.get("/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("\nskillbox_http_connections_refused_total 1\n"), "{metrics}");
    drop(held);
    until(async || answer(&server, "127.0.0.2").await.starts_with("HTTP/1.1 200").then_some(()))
        .await;
}

/// Whether an address can fill a server of eight connections.
async fn can_fill(settings: &[(&str, &str)]) -> bool {
    let server = Server::with(&[&[("max_connections", "8")], settings].concat()).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(wire::connect_from(&server, "127.0.0.2").await);
    }
    let mut other = wire::connect_from(&server, "127.0.0.3").await;
    super::ask(&mut other).await;
    // A server that is full accepts nobody, so there is no event to wait for.
    let early = tokio::time::timeout(std::time::Duration::from_secs(2), rest(&mut other)).await;
    early.is_err()
}

#[tokio::test]
async fn without_a_share_one_address_takes_all_and_a_trusted_proxy_may() {
    assert!(!can_fill(&[]).await, "the default leaves room for others");
    assert!(can_fill(&[("max_connections_per_peer", "8")]).await, "the control");
    assert!(
        can_fill(&[("trusted_proxies", "127.0.0.2")]).await,
        "a proxy carries other people's connections"
    );
}

fn client(address: &str) -> Client {
    let address: IpAddr = address.parse().unwrap();
    Client::builder().no_proxy().local_address(address).build().unwrap()
}

async fn list(client: &Client, server: &Server, key: &str) -> Response {
    client.get(format!("{}/v1/skills", server.url)).bearer_auth(key).send().await.unwrap()
}

/// Guesses keys; how often that was looked at.
async fn guess(server: &Server, from: &str, forwarded: Option<&str>, times: usize) -> usize {
    let (client, tried) = (client(from), AtomicUsize::new(0));
    let attempts = (0..times).map(|number| {
        let mut request = client
            .get(format!("{}/v1/skills", server.url))
            .bearer_auth(format!("sk-guess-{number}"));
        if let Some(address) = forwarded {
            request = request.header("x-forwarded-for", address);
        }
        let tried = &tried;
        async move {
            let answer = request.send().await.unwrap();
            match answer.status().as_u16() {
                401 => drop(tried.fetch_add(1, Ordering::Relaxed)),
                429 => {
                    assert!(
                        answer.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap()
                            >= 1
                    );
                    refused(answer, 429, "rate_limited").await;
                }
                other => panic!("{other}"),
            }
        }
    });
    for attempt in attempts {
        attempt.await;
    }
    tried.into_inner()
}

#[tokio::test]
async fn keys_cannot_be_guessed_without_end() {
    // One a minute, and so one burst of one: what a slow machine gives back is a few more.
    let server = Server::with(&[("max_auth_failures", "1")]).await;
    let (fresh, _) = server.key(serde_json::json!({ "name": "fresh" })).await;
    let (used, _) = server.key(serde_json::json!({ "name": "used" })).await;
    let attacker = client("127.0.0.2");
    assert_eq!(list(&attacker, &server, &used).await.status(), 200);
    let tried = guess(&server, "127.0.0.2", None, 200).await;
    assert!(tried < 100, "{tried} of 200 were tried");

    assert_eq!(
        list(&attacker, &server, &used).await.status(),
        200,
        "a key in use passes from the same address"
    );
    refused(list(&attacker, &server, "sk-wrong").await, 429, "rate_limited").await;
    let without = attacker.get(format!("{}/v1/skills", server.url)).send().await.unwrap();
    refused(without, 401, "unauthorized").await;
    let elsewhere = client("127.0.0.3");
    refused(list(&elsewhere, &server, "sk-wrong").await, 401, "unauthorized").await;
    assert_eq!(
        list(&client("127.0.0.4"), &server, &fresh).await.status(),
        200,
        "and any key from another"
    );

    let open = Server::with(&[("max_auth_failures", "1000000")]).await;
    assert_eq!(
        guess(&open, "127.0.0.2", None, 200).await,
        200,
        "without the limit every guess is tried"
    );
}

#[tokio::test]
async fn a_key_that_was_just_made_passes_from_an_address_that_guesses() {
    let server = Server::with(&[("max_auth_failures", "1")]).await;
    guess(&server, "127.0.0.2", None, 20).await;
    let (fresh, _) = server.key(serde_json::json!({ "name": "fresh" })).await;
    assert_eq!(list(&client("127.0.0.2"), &server, &fresh).await.status(), 200);
}

#[tokio::test]
async fn clients_behind_a_trusted_proxy_are_told_apart_and_others_cannot_pretend() {
    let settings = [("max_auth_failures", "1"), ("trusted_proxies", "127.0.0.9")];
    let server = Server::with(&settings).await;
    assert!(guess(&server, "127.0.0.9", Some("203.0.113.1"), 50).await < 25);
    assert!(
        guess(&server, "127.0.0.9", Some("203.0.113.2"), 1).await == 1,
        "another client of the proxy"
    );
    let mut tried = 0;
    for number in 0..50 {
        tried += guess(&server, "127.0.0.8", Some(&format!("203.0.113.{number}")), 1).await;
    }
    assert!(
        tried < 25,
        "a client that is no proxy got {tried} of 50 guesses by naming other addresses"
    );
}
