//! Presigned URLs, fetched with an ordinary HTTP client without credentials.

use std::time::Duration;

use blobs::BlobKey;
use bytes::Bytes;
use reqwest::{Client, Method, Response};

use crate::relay::Relay;
use crate::support::{Bench, server, until};

const HOUR: Duration = Duration::from_secs(3600);

async fn bench(test: &str) -> Option<Bench> {
    Some(Bench::s3(server(test)?).await)
}

async fn put(bench: &Bench, name: &str) -> BlobKey {
    let key = bench.artifact(name);
    bench.blobs.put(&key, Bytes::from(name.to_owned())).await.expect("put");
    key
}

fn url(bench: &Bench, key: &BlobKey, filename: &str, content_type: &str, ttl: Duration) -> String {
    bench.blobs.presign(key, filename, content_type, ttl).expect("signed").expect("a URL")
}

async fn send(method: Method, url: &str) -> Response {
    let client = Client::builder().no_proxy().build().expect("a client");
    client.request(method, url).send().await.expect("an answer")
}

async fn status(url: &str) -> u16 {
    send(Method::GET, url).await.status().as_u16()
}

#[tokio::test]
async fn bearer_of_the_url_gets_a_download() {
    let Some(bench) = bench("bearer_of_the_url_gets_a_download").await else { return };
    let odd = "x\"; filename=evil\r\nSet-Cookie: ü 😀+%20&.html";
    for name in ["report.csv", "plots/a b.png", "a+b%20c?d#e&f", "ünïcödé", "", odd] {
        let key = put(&bench, name).await;
        let answer =
            send(Method::GET, &url(&bench, &key, name, "text/html; charset=utf-8", HOUR)).await;
        assert_eq!(answer.status(), 200, "{name}");
        let header = |name: &str| {
            answer.headers().get(name).map(|value| value.to_str().expect("ASCII").to_owned())
        };
        let disposition = header("content-disposition").expect("a disposition");
        assert!(disposition.starts_with("attachment; filename=\""), "{disposition}");
        assert_eq!(header("content-type").as_deref(), Some("text/html; charset=utf-8"));
        assert_eq!(header("set-cookie"), None);
        assert_eq!(answer.bytes().await.expect("a body"), name.as_bytes());
    }
    let key = bench.skill("sha256:1");
    bench.blobs.put(&key, Bytes::from_static(b"zip")).await.expect("put");
    assert_eq!(status(&url(&bench, &key, "skill.zip", "application/zip", HOUR)).await, 200);
}

#[tokio::test]
async fn changed_url_is_rejected() {
    let Some(bench) = bench("changed_url_is_rejected").await else { return };
    let (key, other) = (put(&bench, "mine").await, put(&bench, "other").await);
    let good = url(&bench, &key, "mine.txt", "text/plain", HOUR);
    assert_eq!(status(&good).await, 200);
    let at = good.find("X-Amz-Signature=").expect("a signature") + "X-Amz-Signature=".len();
    let mut forged = good.clone();
    let digit = if good[at..].starts_with('0') { "1" } else { "0" };
    forged.replace_range(at..=at, digit);
    let changed = [
        good.replace("files/mine", "files/other"),
        good.replace(key.as_str(), other.as_str()),
        forged,
        good.replace("attachment", "inline"),
        good.replace("mine.txt", "mine.html"),
        good.replace("text%2Fplain", "text%2Fhtml"),
        good.replace("X-Amz-Expires=3600", "X-Amz-Expires=36000"),
        format!("{good}&response-cache-control=public"),
        good.split('?').next().expect("a path").to_owned(),
        good.split("&X-Amz-Signature").next().expect("all but the signature").to_owned(),
    ];
    for url in changed {
        assert_ne!(url, good);
        let status = status(&url).await;
        assert!((400..500).contains(&status), "{status} for {url}");
    }
}

#[tokio::test]
async fn url_allows_only_reading() {
    let Some(bench) = bench("url_allows_only_reading").await else { return };
    let key = put(&bench, "mine").await;
    let url = url(&bench, &key, "mine.txt", "text/plain", HOUR);
    for method in [Method::PUT, Method::DELETE, Method::POST] {
        let answer = send(method.clone(), &url).await;
        assert!(answer.status().is_client_error(), "{method}: {}", answer.status());
    }
    assert_eq!(bench.blobs.get(&key, 100).await.expect("get").as_deref(), Some(&b"mine"[..]));
}

#[tokio::test]
async fn url_expires() {
    let Some(bench) = bench("url_expires").await else { return };
    let key = put(&bench, "mine").await;
    let brief = url(&bench, &key, "mine.txt", "text/plain", Duration::from_secs(1));
    let lasting = url(&bench, &key, "mine.txt", "text/plain", HOUR);
    until(async || (status(&brief).await == 403).then_some(())).await;
    assert_eq!(status(&lasting).await, 200);
}

#[tokio::test]
async fn url_has_the_public_address() {
    let Some(mut config) = server("url_has_the_public_address") else { return };
    let relay = Relay::to(&config.endpoint).await;
    config.public_url = Some(format!("{}/", relay.url()));
    let bench = Bench::s3(config).await;
    let key = put(&bench, "mine").await;
    let public = url(&bench, &key, "mine.txt", "text/plain", HOUR);
    assert!(public.starts_with(&format!("{}/skillbox-test-executions/", relay.url())), "{public}");
    assert_eq!(status(&public).await, 200);
}
