//! Limits on what a server may write to the engine's disk. Each attack is also tried without its
//! limit as a control, and then reaches the engine.

use docker_proxy::ProxyConfig;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::bodies::{filler, sandbox, volume, with};
use crate::life::DirectEngine;
use crate::support::engine::{FakeEngine, UNBOUNDED, VOLUMES};
use crate::support::{RawResponse, RunningProxy, mutating_requests};

/// Sends a body to a proxy in front of a fake engine. Returns the response, and whether the engine
/// received it.
async fn send_create(
    path: &str,
    body: &Value,
    change: impl FnOnce(&mut ProxyConfig),
) -> (RawResponse, bool) {
    let engine = FakeEngine::start().await;
    let proxy = RunningProxy::start(engine.address(), change).await;
    let answer = proxy.ask("POST", path, &body.to_string()).await;
    (answer, !mutating_requests(&engine.requests()).is_empty())
}

/// Checks that a body is rejected with this message by default, and accepted under another policy.
async fn assert_limited(
    path: &str,
    body: &Value,
    words: &str,
    unbound: impl FnOnce(&mut ProxyConfig),
) {
    let (answer, reached) = send_create(path, body, |_| {}).await;
    assert_eq!((answer.status, reached), (403, false), "{answer:?}");
    assert!(answer.message().contains(words), "{answer:?}");
    let (answer, reached) = send_create(path, body, unbound).await;
    assert_eq!((answer.status, reached), (201, true), "the control: {answer:?}");
}

#[tokio::test]
async fn the_program_size_of_a_filler_is_limited() {
    let endless = with(filler(), "Entrypoint.5", json!("1000000000000"));
    assert_limited("/containers/create", &endless, "at most 67108864", |config| {
        config.policy.max_guest_bytes = i64::MAX
    })
    .await;
}

#[tokio::test]
async fn the_file_size_of_containers_is_limited() {
    let large = json!([{"Name": "fsize", "Soft": 1i64 << 40, "Hard": 1i64 << 40}]);
    let endless = with(filler(), "HostConfig.Ulimits", large.clone());
    assert_limited("/containers/create", &endless, "\"fsize\"", |config| {
        config.policy.max_guest_bytes = i64::MAX
    })
    .await;
    // What only memory holds may be as large as memory.
    let endless = with(sandbox(), "HostConfig.Ulimits", large);
    assert_limited("/containers/create", &endless, "\"fsize\"", |config| {
        config.policy.max_memory_bytes = i64::MAX
    })
    .await;
}

#[tokio::test]
async fn the_number_of_volumes_is_limited() {
    let change = |config: &mut ProxyConfig| config.policy.max_volumes = VOLUMES;
    let (answer, reached) = send_create("/volumes/create", &volume(), change).await;
    assert_eq!((answer.status, reached), (403, false), "{answer:?}");
    assert!(answer.message().contains("--max-volumes"), "{answer:?}");
    let change = |config: &mut ProxyConfig| config.policy.max_volumes = VOLUMES + 1;
    assert_eq!(
        send_create("/volumes/create", &volume(), change).await.0.status,
        201,
        "the control"
    );
    // One that is there already is no new one.
    let again = with(volume(), "Name", json!(crate::support::engine::VOLUME));
    let change = |config: &mut ProxyConfig| config.policy.max_volumes = 0;
    assert_eq!(send_create("/volumes/create", &again, change).await.0.status, 201);
}

/// A missing working directory is made by root, also inside a volume, and `/proc/self/fd/…` may
/// lead out of the container.
#[tokio::test]
async fn only_the_root_is_allowed_as_working_directory() {
    for directory in ["/skillbox/made", "/proc/self/fd/8"] {
        for body in [sandbox(), filler()] {
            let body = with(body, "WorkingDir", json!(directory));
            let unbound =
                |config: &mut ProxyConfig| config.policy.working_dirs.push(directory.to_owned());
            assert_limited("/containers/create", &body, "WorkingDir other than /", unbound).await;
        }
    }
}

#[tokio::test]
async fn images_with_volumes_are_rejected() {
    for image in ["with-volumes:1", UNBOUNDED] {
        let body = with(sandbox(), "Image", json!(image));
        let allowed =
            |config: &mut ProxyConfig| config.policy.images.push("with-volumes:1".to_owned());
        let (answer, reached) = send_create("/containers/create", &body, allowed).await;
        assert_eq!((answer.status, reached), (403, false), "{image}: {answer:?}");
        let unbound = |config: &mut ProxyConfig| {
            allowed(config);
            config.policy.max_image_volumes = 1;
        };
        let (answer, reached) = send_create("/containers/create", &body, unbound).await;
        assert_eq!((answer.status, reached), (201, true), "the control: {image}: {answer:?}");
    }
    // It may be looked at, so that a launcher can say what is wrong with it.
    let engine = FakeEngine::start().await;
    let proxy = RunningProxy::start(engine.address(), |config| {
        config.policy.images.push("with-volumes:1".to_owned())
    })
    .await;
    assert_eq!(proxy.ask("GET", "/images/with-volumes:1/json", "").await.status, 200);
    assert_eq!(proxy.create(&with(sandbox(), "Image", json!(UNBOUNDED))).await.status, 403);
}

#[tokio::test]
async fn the_rate_of_fills_is_limited() {
    for (fills, expected) in [(2, [201, 201, 429]), (3, [201, 201, 201])] {
        let engine = FakeEngine::start().await;
        let proxy =
            RunningProxy::start(engine.address(), |config| config.limits.max_fills = fills).await;
        let mut answers = Vec::new();
        for _ in 0..expected.len() {
            answers.push(proxy.create(&filler()).await.status);
        }
        assert_eq!(answers, expected);
        assert_eq!(proxy.create(&sandbox()).await.status, 201, "runs go on");
    }
}

/// Many at once on a real engine, which lists a volume only when it is made.
#[tokio::test]
async fn concurrent_volume_creations_respect_the_limit() {
    for (most, made) in [(2, 2), (8, 6)] {
        let Some(mut engine) = DirectEngine::find("concurrent_volume_creations_respect_the_limit")
        else {
            return;
        };
        let instance = format!("counted-{most}-{}", std::process::id());
        let names: Vec<_> = (0..6).map(|number| format!("skillbox-{instance}-{number}")).collect();
        engine.leftovers.extend(names.iter().map(|name| format!("/volumes/{name}")));
        let proxy = RunningProxy::start(engine.address(), |config| {
            config.policy.instance.clone_from(&instance);
            config.policy.max_volumes = most;
        })
        .await;
        let bodies: Vec<_> =
            names.iter().map(|name| with(volume(), "Name", json!(name)).to_string()).collect();
        join_all(bodies.iter().map(|body| proxy.ask("POST", "/volumes/create", body))).await;
        let there = names
            .iter()
            .filter(|name| engine.ask("GET", &format!("/volumes/{name}"), "").status == 200);
        assert_eq!(there.count(), made, "of {most}");
    }
}
