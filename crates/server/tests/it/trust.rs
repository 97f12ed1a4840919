//! Signatures over HTTP: keys, revocations, policies, and what an upload and a run are told.

use reqwest::Method;
use serde_json::{Value, json};
use skill::signature::{SIGNATURE_FILE, SecretKey, SkillStatement};

use crate::support::{Server, manifest, refused, zip};

pub(crate) fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32]).unwrap()
}

/// The files of a skill, and its signature beside them.
pub(crate) fn signed(version: &str, key: &SecretKey) -> Vec<(String, String)> {
    let mut files = vec![
        ("SKILL.md".to_owned(), manifest("demo", &format!("version: {version}\n"))),
        ("main.sh".to_owned(), "echo ran\n".to_owned()),
    ];
    let parts =
        files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
    let package = skill::read_parts(parts, &skill::PackageLimits::default()).unwrap();
    files.push((
        SIGNATURE_FILE.to_owned(),
        SkillStatement::from_package(&package).sign(key, 1_794_857_806).to_string(),
    ));
    files
}

impl Server {
    pub(crate) async fn require(&self, signatures: &str) {
        let body = json!({ "policy": { "signatures": signatures } });
        let answer =
            self.request(Method::PUT, "/v1/tenants/default").json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.json::<Value>().await.unwrap()["policy"]["signatures"], signatures);
    }

    pub(crate) async fn trust_key(&self, key: &SecretKey) -> Value {
        let body = json!({ "public_key": key.public().to_file(), "comment": "the build machine" });
        let answer = self.post("/v1/trust/keys", &body).send().await.unwrap();
        assert_eq!(answer.status(), 201);
        answer.json().await.unwrap()
    }

    pub(crate) async fn upload(&self, files: &[(String, String)]) -> reqwest::Response {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let request =
            self.request(Method::POST, "/v1/skills").header("content-type", "application/zip");
        request.body(zip(&files)).send().await.unwrap()
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.json().await.unwrap()
    }

    async fn delete(&self, path: &str) -> u16 {
        self.request(Method::DELETE, path).send().await.unwrap().status().as_u16()
    }
}

#[tokio::test]
async fn a_signed_skill_goes_in_and_shows_who_signed_it() {
    let server = Server::start().await;
    let key = key(1);
    server.require("require").await;
    let files = signed("1.0.0", &key);
    refused(server.upload(&files[..2]).await, 422, "signature_missing").await;
    refused(server.upload(&files).await, 422, "key_untrusted").await;
    let trusted = server.trust_key(&key).await;
    assert_eq!(trusted["key_id"], key.public().id().to_string());
    let published = server.upload(&files).await;
    assert_eq!(published.status(), 201);
    assert_eq!(published.json::<Value>().await.unwrap()["findings"], json!([]));

    let signature = &server.json("/v1/skills/demo/latest").await["signature"];
    let expected = json!({
        "key_id": trusted["key_id"], "trusted": true, "signed_at": "2026-11-16T19:36:46.000000Z", "text": files[2].1,
    });
    assert_eq!(*signature, expected);
    let run = server.run(json!({ "skill": "demo" })).await;
    assert_eq!((&run["status"], &run["trust"]), (&json!("success"), &Value::Null));

    // The signature is not part of what is stored.
    let files = server.json("/v1/skills/demo/1.0.0/files").await;
    let paths: Vec<_> = files.as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["SKILL.md", "main.sh"]);
}

#[tokio::test]
async fn refusals_have_their_own_slugs_and_stand_in_the_trail() {
    let server = Server::start().await;
    let key = key(1);
    server.trust_key(&key).await;
    server.require("require").await;
    assert_eq!(server.upload(&signed("2.0.0", &key)).await.status(), 201);
    refused(server.upload(&signed("1.0.0", &key)).await, 422, "rollback").await;

    let mut moved = signed("2.0.1", &key);
    moved[2].1 = signed("2.0.0", &key)[2].1.clone();
    refused(server.upload(&moved).await, 422, "signature_invalid").await;
    let mut garbled = signed("2.0.1", &key);
    garbled[2].1 = "no signature".to_owned();
    refused(server.upload(&garbled).await, 422, "signature_invalid").await;

    let digest = server.json("/v1/skills/demo/2.0.0").await["digest"].clone();
    let body = json!({ "digest": digest, "reason": "it phones home" });
    let revoked: Value =
        server.post("/v1/trust/digests", &body).send().await.unwrap().json().await.unwrap();
    assert_eq!((&revoked["digest"], &revoked["reason"]), (&digest, &json!("it phones home")));
    refused(server.upload(&signed("2.0.0", &key)).await, 422, "digest_revoked").await;
    let run = server.run(json!({ "skill": "demo" })).await;
    assert_eq!(
        (&run["outcome"], &run["trust"]["code"]),
        (&json!("refused"), &json!("digest_revoked")),
        "{run}"
    );
    assert_eq!(
        server.json("/v1/skills/demo/2.0.0").await["signature"]["problem"],
        "digest_revoked"
    );
    assert_eq!(
        server.delete(&format!("/v1/trust/digests/{}", digest.as_str().unwrap())).await,
        204
    );

    let id = key.public().id();
    assert_eq!(server.delete(&format!("/v1/trust/keys/{id}")).await, 204);
    refused(server.upload(&signed("2.0.0", &key)).await, 422, "key_revoked").await;
    let run = server.run(json!({ "skill": "demo" })).await;
    assert_eq!(run["trust"]["code"], "key_revoked", "{run}");
    refused(
        server
            .post("/v1/trust/keys", &json!({ "public_key": key.public().to_string() }))
            .send()
            .await
            .unwrap(),
        409,
        "conflict",
    )
    .await;
    let stored =
        server.json(&format!("/v1/executions/{}", run["execution_id"].as_str().unwrap())).await;
    assert_eq!(stored["trust"], run["trust"]);

    let trail = server.json("/v1/audit?limit=200").await;
    let count = |action: &str, reason: Value| {
        let entries = trail.as_array().unwrap().iter();
        entries
            .filter(|entry| entry["action"] == action && entry["detail"]["reason"] == reason)
            .count()
    };
    for reason in ["rollback", "signature_invalid", "digest_revoked", "key_revoked"] {
        assert_eq!(count("skill.refused", json!(reason)), 1, "{reason}");
    }
    for reason in ["digest_revoked", "key_revoked"] {
        assert_eq!(count("execution.refused", json!(reason)), 1, "{reason}");
    }
    assert_eq!(count("trust.digest.revoke", json!("it phones home")), 1);
    for action in ["trust.key.add", "trust.key.revoke", "trust.digest.unrevoke"] {
        assert_eq!(count(action, Value::Null), 1, "{action}");
    }
}

#[tokio::test]
async fn warnings_are_findings_and_notes() {
    let server = Server::start().await;
    server.require("warn").await;
    let published = server.upload(&signed("1.0.0", &key(1))).await;
    assert_eq!(published.status(), 201);
    let findings = published.json::<Value>().await.unwrap()["findings"].clone();
    assert_eq!(
        (&findings[0]["code"], &findings[0]["severity"]),
        (&json!("key_untrusted"), &json!("warning"))
    );
    let run = server.run(json!({ "skill": "demo" })).await;
    assert_eq!(
        (&run["status"], &run["trust"]["code"]),
        (&json!("success"), &json!("key_untrusted"))
    );
}

#[tokio::test]
async fn versions_are_listed_and_forgotten() {
    let server = Server::start().await;
    let key = key(1);
    server.trust_key(&key).await;
    assert_eq!(server.upload(&signed("2.0.0", &key)).await.status(), 201);
    let versions = server.json("/v1/trust/versions").await;
    assert_eq!((&versions[0]["name"], &versions[0]["version"]), (&json!("demo"), &json!("2.0.0")));
    server.require("require").await;
    refused(server.upload(&signed("1.0.0", &key)).await, 422, "rollback").await;
    assert_eq!(server.delete("/v1/trust/versions/demo").await, 204);
    assert_eq!(server.delete("/v1/trust/versions/demo").await, 404);
    assert_eq!(server.upload(&signed("1.0.0", &key)).await.status(), 201);
}

#[tokio::test]
async fn nonsense_is_refused_with_a_sentence() {
    let server = Server::start().await;
    for (path, body) in [
        ("/v1/trust/keys", json!({ "public_key": "RWQ" })),
        ("/v1/trust/keys", json!({ "public_key": key(1).public().to_string(), "comment": "a\nb" })),
        ("/v1/trust/keys", json!({})),
        ("/v1/trust/digests", json!({ "digest": "sha256:1" })),
        ("/v1/trust/digests", json!({ "digest": format!("sha256:{}", "A".repeat(64)) })),
        (
            "/v1/trust/digests",
            json!({ "digest": format!("sha256:{}", "a".repeat(64)), "reason": "x".repeat(600) }),
        ),
    ] {
        refused(server.post(path, &body).send().await.unwrap(), 400, "bad_request").await;
    }
    let body = json!({ "policy": { "signatures": "sometimes" } });
    let answer =
        server.request(Method::PUT, "/v1/tenants/default").json(&body).send().await.unwrap();
    refused(answer, 400, "bad_request").await;
    for path in ["/v1/trust/keys/x", "/v1/trust/keys/406E4FAC70A6468A", "/v1/trust/digests/x"] {
        assert_eq!(server.delete(path).await, 404, "{path}");
    }
}
