//! What a server may put on the engine's disk: bounded in size, in number and in time. Each attack
//! is also tried without its bound, and then reaches the engine.

use docker_proxy::ProxyConfig;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::bodies::{filler, sandbox, volume, with};
use crate::life::DirectEngine;
use crate::support::engine::{FakeEngine, UNBOUNDED, VOLUMES};
use crate::support::{RawResponse, RunningProxy, acted};

/// Sends the body to a proxy in front of a stand-in engine: its answer, and whether the engine got
/// anything.
async fn tried(
    path: &str,
    body: &Value,
    change: impl FnOnce(&mut ProxyConfig),
) -> (RawResponse, bool) {
    let engine = FakeEngine::start().await;
    let proxy = RunningProxy::start(engine.address(), change).await;
    let answer = proxy.ask("POST", path, &body.to_string()).await;
    (answer, !acted(&engine.requests()).is_empty())
}

/// Refused with these words under the usual policy, and let through under a changed one.
async fn bounded(path: &str, body: &Value, words: &str, unbound: impl FnOnce(&mut ProxyConfig)) {
    let (answer, reached) = tried(path, body, |_| {}).await;
    assert_eq!((answer.status, reached), (403, false), "{answer:?}");
    assert!(answer.message().contains(words), "{answer:?}");
    let (answer, reached) = tried(path, body, unbound).await;
    assert_eq!((answer.status, reached), (201, true), "the control: {answer:?}");
}

#[tokio::test]
async fn a_filler_cannot_write_without_end() {
    let endless = with(filler(), "Entrypoint.5", json!("1000000000000"));
    bounded("/containers/create", &endless, "at most 67108864", |config| {
        config.policy.max_guest_bytes = i64::MAX
    })
    .await;
}

#[tokio::test]
async fn a_fillers_files_are_bounded_by_the_kernel_too() {
    let large = json!([{"Name": "fsize", "Soft": 1i64 << 40, "Hard": 1i64 << 40}]);
    let endless = with(filler(), "HostConfig.Ulimits", large.clone());
    bounded("/containers/create", &endless, "\"fsize\"", |config| {
        config.policy.max_guest_bytes = i64::MAX
    })
    .await;
    // What only memory holds may be as large as memory.
    let endless = with(sandbox(), "HostConfig.Ulimits", large);
    bounded("/containers/create", &endless, "\"fsize\"", |config| {
        config.policy.max_memory_bytes = i64::MAX
    })
    .await;
}

#[tokio::test]
async fn volumes_are_counted() {
    let change = |config: &mut ProxyConfig| config.policy.max_volumes = VOLUMES;
    let (answer, reached) = tried("/volumes/create", &volume(), change).await;
    assert_eq!((answer.status, reached), (403, false), "{answer:?}");
    assert!(answer.message().contains("--max-volumes"), "{answer:?}");
    let change = |config: &mut ProxyConfig| config.policy.max_volumes = VOLUMES + 1;
    assert_eq!(tried("/volumes/create", &volume(), change).await.0.status, 201, "the control");
    // One that is there already is no new one.
    let again = with(volume(), "Name", json!(crate::support::engine::VOLUME));
    let change = |config: &mut ProxyConfig| config.policy.max_volumes = 0;
    assert_eq!(tried("/volumes/create", &again, change).await.0.status, 201);
}

/// A missing working directory is made by root, also inside a volume, and `/proc/self/fd/…` may
/// lead out of the container.
#[tokio::test]
async fn the_working_directory_is_the_root() {
    for directory in ["/skillbox/made", "/proc/self/fd/8"] {
        for body in [sandbox(), filler()] {
            let body = with(body, "WorkingDir", json!(directory));
            let unbound =
                |config: &mut ProxyConfig| config.policy.working_dirs.push(directory.to_owned());
            bounded("/containers/create", &body, "WorkingDir other than /", unbound).await;
        }
    }
}

#[tokio::test]
async fn an_image_brings_no_volumes_of_its_own() {
    for image in ["with-volumes:1", UNBOUNDED] {
        let body = with(sandbox(), "Image", json!(image));
        let allowed =
            |config: &mut ProxyConfig| config.policy.images.push("with-volumes:1".to_owned());
        let (answer, reached) = tried("/containers/create", &body, allowed).await;
        assert_eq!((answer.status, reached), (403, false), "{image}: {answer:?}");
        let unbound = |config: &mut ProxyConfig| {
            allowed(config);
            config.policy.max_image_volumes = 1;
        };
        let (answer, reached) = tried("/containers/create", &body, unbound).await;
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
async fn volumes_are_not_filled_again_and_again() {
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
async fn volumes_made_at_once_are_counted_too() {
    for (most, made) in [(2, 2), (8, 6)] {
        let Some(mut engine) = DirectEngine::find("volumes_made_at_once_are_counted_too") else {
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
