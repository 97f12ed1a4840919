use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::*;

/// A provider whose set can be changed, and that counts how often it is asked.
#[derive(Clone, Default)]
struct Provider {
    /// `None` is an outage.
    set: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
}

impl Provider {
    /// Serves `kids` until the runtime ends.
    async fn start(kids: &[&str]) -> (Provider, String) {
        let provider = Provider::default();
        provider.publish(kids);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/keys", listener.local_addr().expect("an address"));
        let router = Router::new().route("/keys", get(answer)).with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (provider, url)
    }

    fn publish(&self, kids: &[&str]) {
        let keys: Vec<Value> = kids.iter().map(|kid| key(kid)).collect();
        self.say(Some(json!({ "keys": keys }).to_string()));
    }

    fn say(&self, text: Option<String>) {
        *self.set.lock().expect("a set") = text;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn answer(State(provider): State<Provider>) -> Response {
    provider.asked.fetch_add(1, Ordering::SeqCst);
    match provider.set.lock().expect("a set").clone() {
        Some(text) => text.into_response(),
        None => http::StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn key(kid: &str) -> Value {
    json!({ "kid": kid, "kty": "RSA", "use": "sig", "n": "AQAB", "e": "AQAB" })
}

const EVER: Duration = Duration::from_secs(3600);
const EAGER: RefreshPolicy =
    RefreshPolicy { fresh_for: EVER, usable_for: EVER, min_interval: Duration::ZERO };

#[tokio::test]
async fn keys_are_kept_and_a_new_one_is_found() {
    let (provider, url) = Provider::start(&["a"]).await;
    let keys = KeySet::with(&url, EAGER).expect("a set");
    assert!(keys.find(Some("a")).await.is_some() && keys.find(Some("a")).await.is_some());
    assert!(keys.find(None).await.is_some(), "the only key there is");
    assert_eq!(provider.asked(), 1);
    provider.publish(&["b", "c"]);
    assert!(keys.find(Some("b")).await.is_some());
    assert_eq!(provider.asked(), 2);
    assert!(keys.find(Some("a")).await.is_none(), "a key that was withdrawn opens nothing");
    assert!(keys.find(None).await.is_none(), "one of two keys is not guessed");
}

#[tokio::test]
async fn unknown_names_do_not_become_a_flood() {
    let (provider, url) = Provider::start(&["a"]).await;
    let keys = KeySet::with(&url, RefreshPolicy { min_interval: EVER, ..EAGER }).expect("a set");
    for n in 0..50 {
        assert!(keys.find(Some(&format!("made-up-{n}"))).await.is_none());
    }
    assert_eq!(provider.asked(), 1);
    assert!(keys.find(Some("a")).await.is_some());
}

#[tokio::test]
async fn an_outage_is_survived_for_a_bounded_time() {
    let (provider, url) = Provider::start(&["a"]).await;
    let old = RefreshPolicy { fresh_for: Duration::ZERO, ..EAGER };
    let keys = KeySet::with(&url, old).expect("a set");
    assert!(keys.find(Some("a")).await.is_some());
    for outage in
        [None, Some("<html>".into()), Some("{}".into()), Some("x".repeat(MAX_KEY_SET_BYTES + 1))]
    {
        provider.say(outage);
        let asked = provider.asked();
        assert!(keys.find(Some("a")).await.is_some(), "what was known goes on");
        assert!(provider.asked() > asked, "and was asked for again");
    }
    let brief =
        KeySet::with(&url, RefreshPolicy { usable_for: Duration::ZERO, ..old }).expect("a set");
    provider.publish(&["a"]);
    assert!(brief.find(Some("a")).await.is_none(), "what is usable_for is not believed");
}

#[tokio::test]
async fn a_set_without_usable_keys_is_an_answer_and_no_outage() {
    let unusable = json!({ "kid": "a", "kty": "oct", "k": "c2VjcmV0" });
    for keys in [vec![], vec![unusable]] {
        let (provider, url) = Provider::start(&["a"]).await;
        let set = KeySet::with(&url, RefreshPolicy { fresh_for: Duration::ZERO, ..EAGER })
            .expect("a set");
        assert!(set.find(Some("a")).await.is_some());
        provider.say(Some(json!({ "keys": keys }).to_string()));
        assert!(set.find(Some("a")).await.is_none(), "the key was withdrawn");
        provider.say(None);
        assert!(set.find(Some("a")).await.is_none(), "and an outage does not bring it back");
    }
}

#[test]
fn only_keys_for_our_signatures_are_used() {
    let point = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let ec = |curve: &str| json!({ "kid": "e", "kty": "EC", "crv": curve, "x": point, "y": point });
    let with = |mut key: Value, name: &str, value: Value| {
        key[name] = value;
        key
    };
    let algorithm = |key: Value| usable_keys(&[key]).into_values().next().map(|key| key.algorithm);
    assert_eq!(algorithm(key("a")), Some(Algorithm::RS256));
    assert_eq!(algorithm(ec("P-256")), Some(Algorithm::ES256));
    assert_eq!(algorithm(with(key("a"), "alg", json!("RS256"))), Some(Algorithm::RS256));
    for other in [
        with(key("a"), "alg", json!("RS512")),
        with(key("a"), "alg", json!("ES256")),
        with(key("a"), "alg", json!("HS256")),
        with(key("a"), "use", json!("enc")),
        with(key("a"), "key_ops", json!(["encrypt"])),
        with(ec("P-256"), "alg", json!("RS256")),
        ec("P-384"),
        json!({ "kid": "s", "kty": "oct", "k": "c2VjcmV0", "alg": "HS256" }),
        json!({ "kid": "o", "kty": "OKP", "crv": "Ed25519", "x": point }),
        json!("key"),
    ] {
        assert_eq!(algorithm(other.clone()), None, "{other}");
    }
}
