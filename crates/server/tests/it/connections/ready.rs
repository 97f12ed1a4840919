//! `/ready` needs no key, so what it costs must not depend on how often it is asked.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::StatusCode;

use super::wire::{Client, RST_STREAM};
use crate::support::Server;

async fn checks(server: &Server) -> u64 {
    let page = server.get("/metrics").send().await.unwrap().text().await.unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix("skillbox_ready_checks_total "));
    line.unwrap().parse().unwrap()
}

const TIMES: u64 = 100;

/// How often the parts of the server are asked when so many ask for them at once.
async fn asked(server: &Server) -> u64 {
    let before = checks(server).await;
    let all = (0..TIMES).map(|_| server.http.get(format!("{}/ready", server.url)).send());
    for answer in join_all(all).await {
        assert_eq!(answer.unwrap().status(), StatusCode::OK);
    }
    checks(server).await - before
}

#[tokio::test]
async fn many_questions_are_one_check() {
    let server =
        Server::with_config(&[], |config| config.ready_age = Duration::from_secs(3600)).await;
    assert_eq!(asked(&server).await, 1);
    let open = Server::with_config(&[], |config| config.ready_age = Duration::ZERO).await;
    assert_eq!(asked(&open).await, TIMES, "without the cache every question is a check");
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_start_another_check() {
    let server =
        Server::with_config(&[], |config| config.ready_age = Duration::from_secs(3600)).await;
    for _ in 0..20 {
        let mut client = Client::connect(&server).await;
        let stream = client.get("/ready").await.unwrap();
        client.send(RST_STREAM, 0, stream, &8_u32.to_be_bytes()).await.unwrap();
        // It has been read, whether or not there was time to answer.
        client.sync().await.unwrap();
    }
    assert_eq!(
        server.http.get(format!("{}/ready", server.url)).send().await.unwrap().status(),
        200
    );
    assert_eq!(checks(&server).await, 1);
}
