//! Tokens of an identity provider: the good ones open what they say, and every known way to forge
//! one opens nothing.

use std::sync::LazyLock;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use axum::Router;
use axum::routing::get;
use data_encoding::{BASE64_MIME, BASE64URL_NOPAD};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Server, manifest, refused, zip};

const SECRET: &str = "a secret of at least thirty-two characters";
const ISSUER: (&str, &str) = ("jwt_issuer", "https://id.example.com");
const AUDIENCE: (&str, &str) = ("jwt_audience", "skillbox");
/// These tests make more forgeries than one address may.
const MANY_FAILURES: (&str, &str) = ("max_auth_failures", "10000");

/// A key pair: what signs, and what is given away.
struct Pair {
    private: EncodingKey,
    public_pem: String,
    algorithm: Algorithm,
}

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}-----END {kind}-----\n", BASE64_MIME.encode(der))
}

/// Making an RSA key takes long, so the tests share two.
static RSA: LazyLock<[Pair; 2]> = LazyLock::new(|| [rsa(), rsa()]);
static EC: LazyLock<Pair> = LazyLock::new(ec);

fn rsa() -> Pair {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let private: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    Pair {
        private: EncodingKey::from_rsa_pem(pem("PRIVATE KEY", private.as_ref()).as_bytes())
            .unwrap(),
        public_pem: pem("PUBLIC KEY", public.as_ref()),
        algorithm: Algorithm::RS256,
    }
}

fn ec() -> Pair {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let private = pair.to_pkcs8v1().unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    Pair {
        private: EncodingKey::from_ec_der(private.as_ref()),
        public_pem: pem("PUBLIC KEY", public.as_ref()),
        algorithm: Algorithm::ES256,
    }
}

impl Pair {
    fn jwk(&self, kid: &str) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.private, self.algorithm).unwrap();
        jwk.common.key_id = Some(kid.into());
        serde_json::to_value(jwk).unwrap()
    }

    fn token(&self, head: Value, claims: &Value) -> String {
        sealed(head, claims, &self.private, self.algorithm)
    }
}

fn part(json: &Value) -> String {
    BASE64URL_NOPAD.encode(json.to_string().as_bytes())
}

/// A token with any header whatever, signed by this key and algorithm.
fn sealed(head: Value, claims: &Value, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", part(&head), part(claims));
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

fn hs256(claims: &Value) -> String {
    sealed(
        json!({ "alg": "HS256" }),
        claims,
        &EncodingKey::from_secret(SECRET.as_bytes()),
        Algorithm::HS256,
    )
}

fn now() -> i64 {
    chrono::Utc::now().timestamp()
}

/// What a good token says.
fn claims() -> Value {
    json!({
        "iss": ISSUER.1, "aud": AUDIENCE.1, "sub": "ada", "tenant": "default", "scope": "read execute publish admin",
        "exp": now() + 600,
    })
}

fn claims_with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

async fn with_secret() -> Server {
    Server::with(&[("jwt_secret", SECRET), ISSUER, AUDIENCE, MANY_FAILURES]).await
}

/// A server that checks with a public key in a file.
async fn with_pem(pair: &Pair) -> (Server, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &pair.public_pem).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (Server::with(&[("jwt_public_key", &path), ISSUER, AUDIENCE, MANY_FAILURES]).await, file)
}

/// A server that checks with a set of keys at a URL.
async fn with_jwks(keys: Value) -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let set = json!({ "keys": keys }).to_string();
    let router = Router::new().route("/keys", get(async move || set.clone()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Server::with(&[("jwt_jwks_url", &url), ISSUER, AUDIENCE, MANY_FAILURES]).await
}

async fn status(server: &Server, token: &str) -> u16 {
    server.request_as(token, Method::GET, "/v1/skills").send().await.unwrap().status().as_u16()
}

/// Demands that a token is refused exactly as a bad key is.
async fn nobody(server: &Server, token: &str, what: &str) {
    let bad_key = server.request_as("sk-wrong", Method::GET, "/v1/skills").send().await.unwrap();
    let bad_key = refused(bad_key, 401, "unauthorized").await;
    let answer = server.request_as(token, Method::GET, "/v1/skills").send().await.unwrap();
    assert_eq!(answer.status(), 401, "{what}");
    assert_eq!(answer.headers()["www-authenticate"], "Bearer", "{what}");
    assert_eq!(answer.json::<Value>().await.unwrap(), bad_key, "{what}");
}

#[tokio::test]
async fn a_token_opens_what_its_scopes_say() {
    let server = with_secret().await;
    let token = hs256(&claims());
    let upload = server
        .request_as(&token, Method::POST, "/v1/skills")
        .header("content-type", "application/zip");
    let skill = zip(&[("SKILL.md", &manifest("hello", "")), ("main.sh", "echo hello\n")]);
    assert_eq!(upload.body(skill).send().await.unwrap().status(), 201);
    let run = server
        .request_as(&token, Method::POST, "/v1/executions")
        .json(&json!({ "skill": "hello" }));
    let run: Value = run.send().await.unwrap().json().await.unwrap();
    assert_eq!(run["status"], "success", "{run}");
    let listed: Vec<Value> =
        server.get("/v1/executions").send().await.unwrap().json().await.unwrap();
    assert!(listed[0]["key_id"].is_null(), "no key did this");
    let trail: Vec<Value> = server.get("/v1/audit").send().await.unwrap().json().await.unwrap();
    let entry = trail.iter().find(|entry| entry["action"] == "skill.publish").unwrap();
    assert!(entry["actor"].is_null() && entry["detail"]["subject"] == "ada", "{entry}");
    // Keys go on working beside tokens.
    assert_eq!(status(&server, &server.key).await, 200);

    for (scope, expected) in [
        (json!("read"), 200),
        (json!(["read", "openid"]), 200),
        (json!("execute publish"), 403),
        (json!("everything"), 403),
        (json!(""), 403),
        (json!(null), 403),
        (json!({ "read": true }), 403),
    ] {
        assert_eq!(
            status(&server, &hs256(&claims_with("scope", scope.clone()))).await,
            expected,
            "{scope}"
        );
    }
}

#[tokio::test]
async fn a_token_acts_in_its_own_tenant_and_in_no_other() {
    let server = with_secret().await;
    server.tenant("acme").await;
    let acme = hs256(&claims_with("tenant", json!("acme")));
    let ask = |tenant: &str| {
        server.request_as(&acme, Method::GET, "/v1/skills").header("x-tenant-id", tenant).send()
    };
    assert_eq!(ask("acme").await.unwrap().status(), 200);
    refused(ask("default").await.unwrap(), 403, "forbidden").await;
    // Whatever it claims, it never administers the installation.
    let mut grand = claims();
    (grand["service"], grand["scope"]) = (json!(true), json!("admin service"));
    let tenants =
        server.request_as(&hs256(&grand), Method::GET, "/v1/tenants").send().await.unwrap();
    refused(tenants, 403, "forbidden").await;
    // Tenants are made by operators, not by tokens.
    for tenant in [json!("nobody"), json!("../acme"), json!(7), json!(["acme"]), json!("")] {
        let token = hs256(&claims_with("tenant", tenant.clone()));
        let answer = server.request_as(&token, Method::GET, "/v1/skills").send().await.unwrap();
        assert_eq!(answer.status(), 403, "{tenant}");
        refused(answer, 403, "forbidden").await;
    }
    assert_eq!(server.get("/v1/tenants/nobody").send().await.unwrap().status(), 404);
    // With its tenant a token's power ends, at once.
    server.post("/v1/tenants", &json!({ "id": "brief" })).send().await.unwrap();
    let brief = hs256(&claims_with("tenant", json!("brief")));
    assert_eq!(status(&server, &brief).await, 200);
    let gone = server.request(Method::DELETE, "/v1/tenants/brief").send().await.unwrap();
    assert_eq!(gone.status(), 204);
    assert_eq!(status(&server, &brief).await, 403);
}

#[tokio::test]
async fn a_key_made_with_a_token_ends_with_it() {
    let server = with_secret().await;
    let made = server
        .request_as(&hs256(&claims()), Method::POST, "/v1/keys")
        .json(&json!({ "name": "k" }));
    let made: Value = made.send().await.unwrap().json().await.unwrap();
    assert!(made["expires_at"].is_string(), "{made}");
    let service = json!({ "name": "k", "service": true });
    let service = server
        .request_as(&hs256(&claims()), Method::POST, "/v1/keys")
        .json(&service)
        .send()
        .await
        .unwrap();
    refused(service, 403, "forbidden").await;
}

#[tokio::test]
async fn claims_that_do_not_hold_open_nothing() {
    let server = with_secret().await;
    assert_eq!(status(&server, &hs256(&claims())).await, 200);
    let list = claims_with("aud", json!(["other", AUDIENCE.1]));
    assert_eq!(status(&server, &hs256(&list)).await, 200, "one of several audiences is ours");
    assert_eq!(status(&server, &hs256(&claims_with("nbf", json!(now() - 60)))).await, 200);
    for (name, value) in [
        ("exp", json!(now() - 3600)),
        ("exp", json!(null)),
        ("exp", json!("tomorrow")),
        ("exp", json!(-1)),
        ("exp", json!((now() + 600).to_string())),
        ("nbf", json!(now() + 3600)),
        ("nbf", json!("soon")),
        ("iss", json!("https://evil.example.com")),
        ("iss", json!(null)),
        ("iss", json!([ISSUER.1])),
        ("iss", json!([ISSUER.1, "https://evil.example.com"])),
        ("aud", json!("other")),
        ("aud", json!(["other", "another"])),
        ("aud", json!([])),
        ("aud", json!(null)),
        ("aud", json!({ "skillbox": true })),
        ("sub", json!(null)),
    ] {
        nobody(&server, &hs256(&claims_with(name, value.clone())), &format!("{name} is {value}"))
            .await;
    }
}

#[tokio::test]
async fn a_damaged_token_opens_nothing() {
    let server = with_secret().await;
    let token = hs256(&claims());
    let (message, signature) = token.rsplit_once('.').unwrap();
    let mut other = claims();
    other["tenant"] = json!("acme");
    for (what, forged) in [
        ("no signature", format!("{message}.")),
        ("half a signature", format!("{message}.{}", &signature[..20])),
        ("a longer signature", format!("{token}AA")),
        ("another signature", format!("{message}.{}", "A".repeat(signature.len()))),
        ("no claims", format!("{}..{signature}", part(&json!({ "alg": "HS256" })))),
        (
            "other claims",
            format!("{}.{}.{signature}", part(&json!({ "alg": "HS256" })), part(&other)),
        ),
        ("four parts", format!("{token}.x")),
        ("two parts", message.to_owned()),
        ("truncated", token[..token.len() / 2].to_owned()),
        ("an array for claims", sealed_text("[]")),
        ("no JSON for claims", sealed_text("hello")),
        (
            "huge",
            format!("{}.{}.{signature}", part(&json!({ "alg": "HS256" })), "A".repeat(40_000)),
        ),
    ] {
        nobody(&server, &forged, what).await;
    }
    let another = EncodingKey::from_secret(b"another secret of thirty-two characters");
    let forged = sealed(json!({ "alg": "HS256" }), &claims(), &another, Algorithm::HS256);
    nobody(&server, &forged, "another secret").await;
    let empty = sealed(
        json!({ "alg": "HS256" }),
        &claims(),
        &EncodingKey::from_secret(b""),
        Algorithm::HS256,
    );
    nobody(&server, &empty, "an empty secret").await;
    // Two credentials, of which one is good.
    for (first, second) in
        [(token.as_str(), "sk-x"), ("sk-x", token.as_str()), (token.as_str(), token.as_str())]
    {
        let twice = server.request_as(first, Method::GET, "/v1/skills");
        let twice = twice.header("authorization", format!("Bearer {second}")).send().await.unwrap();
        refused(twice, 401, "unauthorized").await;
    }
}

/// A token whose claims are any text whatever, well signed.
fn sealed_text(text: &str) -> String {
    let message =
        format!("{}.{}", part(&json!({ "alg": "HS256" })), BASE64URL_NOPAD.encode(text.as_bytes()));
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
    format!("{message}.{signature}")
}

#[tokio::test]
async fn an_unsigned_token_opens_nothing_however_none_is_spelt() {
    let servers =
        [with_secret().await, with_pem(&RSA[0]).await.0, with_jwks(json!([RSA[0].jwk("a")])).await];
    for server in &servers {
        for none in ["none", "None", "NONE", "nOnE", "", " none", "null", "HS256 "] {
            for kid in [json!(null), json!("a")] {
                let head = json!({ "alg": none, "typ": "JWT", "kid": kid });
                let message = format!("{}.{}", part(&head), part(&claims()));
                nobody(server, &format!("{message}."), none).await;
                nobody(server, &format!("{message}.AAAA"), none).await;
            }
        }
        let headless = format!("{}.{}.", part(&json!({ "typ": "JWT" })), part(&claims()));
        nobody(server, &headless, "no alg at all").await;
        nobody(
            server,
            &format!("{}.{}.", part(&json!({ "alg": null })), part(&claims())),
            "alg is null",
        )
        .await;
    }
}

#[tokio::test]
async fn a_public_key_is_never_taken_for_a_secret() {
    let (rsa, _file) = with_pem(&RSA[0]).await;
    assert_eq!(status(&rsa, &RSA[0].token(json!({ "alg": "RS256" }), &claims())).await, 200);
    let jwks = with_jwks(json!([RSA[0].jwk("a")])).await;
    assert_eq!(
        status(&jwks, &RSA[0].token(json!({ "alg": "RS256", "kid": "a" }), &claims())).await,
        200
    );
    let public = &RSA[0].public_pem;
    let modulus = RSA[0].jwk("a")["n"].as_str().unwrap().to_owned();
    let secrets = [
        public.clone(),
        public.trim_end().to_owned(),
        public.replace('\n', "\r\n"),
        public.lines().filter(|line| !line.starts_with('-')).collect(),
        modulus,
    ];
    for secret in &secrets {
        let key = EncodingKey::from_secret(secret.as_bytes());
        for (name, algorithm) in
            [("HS256", Algorithm::HS256), ("HS384", Algorithm::HS384), ("HS512", Algorithm::HS512)]
        {
            nobody(&rsa, &sealed(json!({ "alg": name }), &claims(), &key, algorithm), name).await;
            let head = json!({ "alg": name, "kid": "a" });
            nobody(&jwks, &sealed(head, &claims(), &key, algorithm), name).await;
        }
        // The header says what the server expects, and the signature is of another kind.
        nobody(
            &rsa,
            &sealed(json!({ "alg": "RS256" }), &claims(), &key, Algorithm::HS256),
            "a lie",
        )
        .await;
    }
}

#[tokio::test]
async fn a_key_is_for_one_algorithm() {
    let (rsa, _rsa) = with_pem(&RSA[0]).await;
    let (ec, _ec) = with_pem(&EC).await;
    assert_eq!(status(&ec, &EC.token(json!({ "alg": "ES256" }), &claims())).await, 200);
    for alg in ["RS256", "RS384", "PS256", "ES384", "EdDSA", "HS256"] {
        nobody(&ec, &EC.token(json!({ "alg": alg }), &claims()), alg).await;
    }
    for (name, algorithm) in
        [("RS384", Algorithm::RS384), ("RS512", Algorithm::RS512), ("PS256", Algorithm::PS256)]
    {
        nobody(&rsa, &sealed(json!({ "alg": name }), &claims(), &RSA[0].private, algorithm), name)
            .await;
    }
    nobody(&rsa, &EC.token(json!({ "alg": "ES256" }), &claims()), "an EC token for an RSA key")
        .await;
    nobody(&ec, &RSA[0].token(json!({ "alg": "RS256" }), &claims()), "an RSA token for an EC key")
        .await;
    nobody(&rsa, &RSA[1].token(json!({ "alg": "RS256" }), &claims()), "another key").await;
    let server = with_secret().await;
    nobody(
        &server,
        &RSA[0].token(json!({ "alg": "RS256" }), &claims()),
        "an RSA token for a secret",
    )
    .await;
}

#[tokio::test]
async fn the_keys_of_a_set_do_not_stand_in_for_each_other() {
    let server = with_jwks(json!([RSA[0].jwk("a"), RSA[1].jwk("b"), EC.jwk("e")])).await;
    for (pair, kid, alg) in [(&RSA[0], "a", "RS256"), (&RSA[1], "b", "RS256"), (&*EC, "e", "ES256")]
    {
        assert_eq!(
            status(&server, &pair.token(json!({ "alg": alg, "kid": kid }), &claims())).await,
            200,
            "{kid}"
        );
        for other in ["a", "b", "e", "", "unknown", "../a", "' OR 1=1 --"]
            .into_iter()
            .filter(|name| *name != kid)
        {
            nobody(&server, &pair.token(json!({ "alg": alg, "kid": other }), &claims()), other)
                .await;
        }
        nobody(&server, &pair.token(json!({ "alg": alg }), &claims()), "no kid and several keys")
            .await;
    }
    // The algorithm of one key with the name of another.
    nobody(
        &server,
        &EC.token(json!({ "alg": "RS256", "kid": "e" }), &claims()),
        "an EC key with RS256",
    )
    .await;
    nobody(
        &server,
        &RSA[0].token(json!({ "alg": "ES256", "kid": "a" }), &claims()),
        "an RSA key with ES256",
    )
    .await;
}

#[tokio::test]
async fn keys_that_a_token_brings_along_are_not_looked_at() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let server = with_jwks(json!([RSA[0].jwk("a")])).await;
    for kid in [json!("a"), json!("evil")] {
        for (name, value) in [
            ("jwk", RSA[1].jwk("evil")),
            ("jku", json!(url)),
            ("x5u", json!(url)),
            ("x5c", json!([BASE64_MIME.encode(b"certificate")])),
        ] {
            let mut head = json!({ "alg": "RS256", "kid": kid });
            head[name] = value;
            nobody(&server, &RSA[1].token(head.clone(), &claims()), name).await;
            if kid == "a" {
                assert_eq!(
                    status(&server, &RSA[0].token(head, &claims())).await,
                    200,
                    "{name} is ignored"
                );
            }
        }
    }
    assert!(listener.accept().is_err(), "no URL of a token was fetched");
    for (name, value) in [
        ("crit", json!(["exp"])),
        ("crit", json!(["b64"])),
        ("crit", json!([])),
        ("zip", json!("DEF")),
    ] {
        let mut head = json!({ "alg": "RS256", "kid": "a" });
        head[name] = value.clone();
        nobody(&server, &RSA[0].token(head, &claims()), &format!("{name} is {value}")).await;
    }
}

#[tokio::test]
async fn a_provider_that_is_not_there_lets_nobody_in_and_stops_nobody_else() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{gone}/keys");
    let server = Server::with(&[("jwt_jwks_url", &url), ISSUER, AUDIENCE, MANY_FAILURES]).await;
    nobody(&server, &RSA[0].token(json!({ "alg": "RS256", "kid": "a" }), &claims()), "no provider")
        .await;
    assert_eq!(status(&server, &server.key).await, 200);
}

#[tokio::test]
async fn without_the_settings_a_token_is_a_bad_key() {
    let server = Server::start().await;
    nobody(&server, &hs256(&claims()), "no settings").await;
}

#[tokio::test]
async fn a_key_file_that_cannot_be_used_stops_the_start() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("key.pem");
    let refusal = async |text: Option<&str>| {
        match text {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => drop(std::fs::remove_file(&path)),
        }
        let path = path.to_str().unwrap();
        let data = home.path().join("data");
        let started =
            crate::support::launch(&data, &[("jwt_public_key", path), ISSUER, AUDIENCE]).await;
        started.err().unwrap().to_string()
    };
    let private = pem("PRIVATE KEY", b"secret");
    for text in [
        None,
        Some(""),
        Some("hello"),
        Some("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
    ] {
        let message = refusal(text).await;
        assert!(message.starts_with("SKILLBOX_JWT_PUBLIC_KEY"), "{text:?}: {message}");
    }
    let message = refusal(Some(&private)).await;
    assert!(message.contains("private key"), "{message}");
}
