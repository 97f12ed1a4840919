//! Faults of a cluster, one at a time: each has the right outcome and leaves no pod.

use std::time::Duration;

use cluster::{ClusterImage, ResourceQuota};
use k8s_openapi::api::core::v1::Pod;
use language::Language;
use sandbox::{
    GuestError, Job, KubernetesConfig, KubernetesLauncher, LaunchError, Launcher, Outcome,
    RunReport,
};
use tokio_util::sync::CancellationToken;

use crate::pods::{NAMESPACE, StandIn, worker_rules};
use crate::support::{Backend, MACHINE, RecordingSink, job, run_in, shape};

/// A timeout that is sufficient for a loaded machine.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

async fn launcher(stand_in: &StandIn) -> KubernetesLauncher {
    KubernetesLauncher::start(stand_in.config()).await.unwrap()
}

/// Starts a run that never ends by itself, and injects a fault once it runs.
async fn run_with_fault(
    stand_in: &StandIn,
    launcher: &dyn Launcher,
    inject_fault: impl AsyncFnOnce(&Pod),
) -> Result<RunReport, GuestError> {
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let started = CancellationToken::new();
    let mut kept = RecordingSink::default();
    kept.stop_on_log = Some(started.clone());
    let waits =
        Job { timeout: Duration::from_secs(60), ..job(Language::Bash, "echo on; sleep 1000") };
    let run = guest.run(&waits, CancellationToken::new(), &mut kept);
    let (ran, ()) = tokio::join!(run, async {
        started.cancelled().await;
        inject_fault(&stand_in.cluster.pods()[0]).await;
    });
    ran
}

/// Checks that the launcher still works and that no pod is left.
async fn assert_still_works(stand_in: &StandIn, launcher: &dyn Launcher) {
    let (ran, kept) =
        run_in(launcher, &shape(Language::Bash), &job(Language::Bash, "echo fine")).await;
    assert_eq!((ran.outcome, kept.text().as_str()), (Outcome::Exited, "fine\n"));
    assert!(stand_in.cluster.wait_until_empty().await, "{:?}", stand_in.cluster.pods());
}

#[tokio::test]
async fn a_run_survives_broken_and_expired_watches() {
    if !Backend::Pod.is_available("watches that break") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let launcher = launcher(&stand_in).await;
    let stop = CancellationToken::new();
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let mut kept = RecordingSink::default();
    kept.stop_on_log = Some(stop.clone());
    let talks = job(Language::Bash, "echo on; sleep 3; exit 5");
    let run = guest.run(&talks, CancellationToken::new(), &mut kept);
    let (ran, ()) = tokio::join!(run, async {
        stop.cancelled().await;
        stand_in.cluster.drop_watches();
        stand_in.cluster.compact();
        stand_in.cluster.drop_watches();
        stand_in.cluster.throttle_requests(2);
    });
    let ran = ran.unwrap();
    assert_eq!((ran.outcome, ran.exit_code), (Outcome::Exited, Some(5)));
    // The next pod is seen too, by a watch that started anew.
    assert_still_works(&stand_in, &launcher).await;
}

#[tokio::test]
async fn an_api_server_outage_loses_the_active_run_and_leaves_no_pod() {
    if !Backend::Pod.is_available("an API server that goes away") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let launcher = launcher(&stand_in).await;
    let ran = run_with_fault(&stand_in, &launcher, async |_| {
        stand_in.cluster.stop_api().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        stand_in.cluster.resume_api().unwrap();
    });
    assert_eq!(ran.await.unwrap().outcome, Outcome::Lost);
    assert_still_works(&stand_in, &launcher).await;
    // A launch during an outage fails, and does not hang.
    stand_in.cluster.stop_api().await;
    assert!(launcher.launch(&shape(Language::Bash)).await.is_err());
    stand_in.cluster.resume_api().unwrap();
    assert_still_works(&stand_in, &launcher).await;
}

#[tokio::test]
async fn a_pod_ended_from_outside_is_a_lost_run_with_its_cause() {
    if !Backend::Pod.is_available("pods that are ended") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let launcher = launcher(&stand_in).await;
    let evicted = run_with_fault(&stand_in, &launcher, async |pod| {
        stand_in.cluster.evict(pod, "The node was low on resource: memory.");
    });
    let ran = evicted.await.unwrap();
    assert_eq!(ran.outcome, Outcome::Lost);
    assert!(ran.cause.is_some(), "an eviction has a reason");
    let cut = run_with_fault(&stand_in, &launcher, async |_| stand_in.cluster.drop_attachments())
        .await
        .unwrap();
    assert_eq!(cut.outcome, Outcome::Lost);
    let lost = run_with_fault(&stand_in, &launcher, async |pod| {
        stand_in.cluster.lose_node(pod);
        stand_in.cluster.mark_node_lost(pod);
    });
    let ran = lost.await.unwrap();
    assert_eq!(ran.outcome, Outcome::Lost);
    assert!(ran.cause.is_some(), "a node that is lost is a reason");
    assert_still_works(&stand_in, &launcher).await;
}

#[tokio::test]
async fn missing_capacity_is_waited_for_and_then_reported() {
    if !Backend::Pod.is_available("no room") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let short_timeout =
        KubernetesConfig { schedule_timeout: Duration::from_secs(2), ..stand_in.config() };
    let short_timeout = KubernetesLauncher::start(short_timeout).await.unwrap();
    let none = ResourceQuota { name: "compute".into(), hard: [("pods".to_owned(), 0.0)].into() };
    stand_in.cluster.set_quota(Some(none.clone()));
    let error = short_timeout.launch(&shape(Language::Bash)).await.err().unwrap();
    assert!(
        matches!(&error, LaunchError::NoRoom(said) if said.contains("exceeded quota: compute")),
        "{error}"
    );
    stand_in.cluster.set_quota(None);
    stand_in.cluster.set_node_full(true);
    let error = short_timeout.launch(&shape(Language::Bash)).await.err().unwrap();
    assert!(
        matches!(&error, LaunchError::NoRoom(said) if said.contains("Insufficient memory")),
        "{error}"
    );
    assert!(stand_in.cluster.wait_until_empty().await);
    // Capacity that becomes available in time is used.
    let long_timeout = launcher(&stand_in).await;
    let bash = shape(Language::Bash);
    let (launched, ()) = tokio::join!(long_timeout.launch(&bash), async {
        assert!(stand_in.cluster.wait_until(|pods| !pods.is_empty()).await);
        stand_in.cluster.set_node_full(false);
    });
    launched.unwrap().discard().await;
    stand_in.cluster.set_quota(Some(none));
    let (launched, ()) = tokio::join!(long_timeout.launch(&bash), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stand_in.cluster.set_quota(None);
    });
    launched.unwrap().discard().await;
    assert_still_works(&stand_in, &long_timeout).await;
}

#[tokio::test]
async fn missing_images_and_permissions_are_named() {
    if !Backend::Pod.is_available("missing images and rights") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let launcher = launcher(&stand_in).await;
    stand_in.cluster.set_image_missing("skillbox/bash:test", true);
    let error = launcher.launch(&shape(Language::Bash)).await.err().unwrap();
    assert!(
        matches!(&error, LaunchError::ImageUnfit { image, .. } if image == "skillbox/bash:test"),
        "{error}"
    );
    stand_in.cluster.set_image_missing("skillbox/bash:test", false);
    assert_still_works(&stand_in, &launcher).await;
    for missing in ["create", "attach"] {
        let mut rules = worker_rules();
        rules[0].verbs.retain(|verb| verb != missing);
        rules.retain(|rule| !(missing == "attach" && rule.resource == "pods/attach"));
        stand_in.cluster.set_rules(&stand_in.kubeconfig, rules);
        let error = launcher.launch(&shape(Language::Bash)).await.err().unwrap();
        let said = format!("{error}: {:?}", error);
        assert!(said.contains("forbidden") || said.contains("403"), "{missing}: {said}");
        assert!(
            stand_in.cluster.wait_until_empty().await,
            "{missing}: {:?}",
            stand_in.cluster.pods()
        );
    }
    stand_in.cluster.set_rules(&stand_in.kubeconfig, worker_rules());
    assert_still_works(&stand_in, &launcher).await;
}

/// Whether the script sees a file of the image that was pushed meanwhile, and what is reported as its
/// image.
async fn run_and_report_image(launcher: &dyn Launcher) -> (String, String) {
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let image = guest.isolation().image.clone().unwrap();
    let mut kept = RecordingSink::default();
    let look =
        job(Language::Bash, "if [ -e /opt/image/planted ]; then echo planted; else echo own; fi");
    guest.run(&look, CancellationToken::new(), &mut kept).await.unwrap();
    (kept.text().trim().to_owned(), image)
}

#[tokio::test]
async fn a_moved_tag_does_not_change_the_image_of_a_worker() {
    if !Backend::Pod.is_available("a moved tag") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let worker = launcher(&stand_in).await;
    let (seen, first) = run_and_report_image(&worker).await;
    assert_eq!(seen, "own");
    assert!(first.starts_with("skillbox/bash@sha256:"), "{first}");

    // The attack: a user with push access to the registry moves the tag.
    let planted = tempfile::NamedTempFile::new().unwrap();
    let image =
        ClusterImage::new("skillbox/bash:test").with_program("planted", planted.path().to_owned());
    stand_in.cluster.move_tag(image);
    assert_eq!(run_and_report_image(&worker).await, ("own".to_owned(), first.clone()));
    // Control: a pod that is asked for by its name, as the first of a worker is, runs the new
    // image, and says so.
    let (seen, second) = run_and_report_image(&launcher(&stand_in).await).await;
    assert_eq!(seen, "planted");
    assert_ne!(second, first);
    // Named by digest in the configuration, it is the same from the first pod on.
    let mut config = stand_in.config();
    config.images = sandbox::Images::new(|_| first.clone());
    config.allowlist.push(first.clone());
    let exact = KubernetesLauncher::start(config).await.unwrap();
    assert_eq!(run_and_report_image(&exact).await, ("own".to_owned(), first.clone()));

    // What the digest leads to is gone: the worker says what it keeps to, and how to change that.
    stand_in.cluster.set_image_missing("skillbox/bash:test", true);
    let error = worker.launch(&shape(Language::Bash)).await.err().unwrap();
    assert!(matches!(&error, LaunchError::ImageUnfit { image, .. } if *image == first), "{error}");
    assert!(error.to_string().contains("restart it"), "{error}");
    assert!(stand_in.cluster.wait_until_empty().await, "{:?}", stand_in.cluster.pods());
}

/// Two first pods at once, of which the second finds the tag moved: both runs end up on one image.
#[tokio::test]
async fn concurrent_first_pods_use_one_image() {
    if !Backend::Pod.is_available("a tag that is moved between two first pods") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let worker = launcher(&stand_in).await;
    // Both pods are asked for by name, and then wait for a node.
    stand_in.cluster.set_node_full(true);
    let both = async { tokio::join!(run_and_report_image(&worker), run_and_report_image(&worker)) };
    let ((one, two), names) = tokio::join!(both, async {
        let names = loop {
            let pods = stand_in.cluster.pods();
            if pods.len() == 2 {
                break pods
                    .into_iter()
                    .filter_map(|pod| pod.spec?.containers.pop()?.image)
                    .collect::<Vec<_>>();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let planted = ClusterImage {
            env: vec![("PLANTED".to_owned(), "1".to_owned())],
            ..ClusterImage::new("skillbox/bash:test")
        };
        stand_in.cluster.move_tag_after_next_pull(planted);
        stand_in.cluster.set_node_full(false);
        names
    });
    assert_eq!(names, ["skillbox/bash:test"; 2]);
    assert_eq!(one, two);
    // Control: the two pods had different images, and one of the runs needed a third pod, by
    // digest.
    let pulled = stand_in.cluster.pulled_digests("skillbox/bash");
    let [first, second, third] = &pulled[..] else { panic!("{pulled:?}") };
    assert_ne!(first, second);
    assert!(third == first || third == second, "{pulled:?}");
    assert!(stand_in.cluster.wait_until_empty().await, "{:?}", stand_in.cluster.pods());
}

#[tokio::test]
async fn a_slow_api_is_tolerated() {
    if !Backend::Pod.is_available("a slow API") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let launcher = launcher(&stand_in).await;
    stand_in.cluster.set_response_delay(Duration::from_millis(700));
    assert_still_works(&stand_in, &launcher).await;
}

#[tokio::test]
async fn pods_of_a_dead_worker_are_swept_and_active_pods_stay() {
    if !Backend::Pod.is_available("a sweep") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let config = stand_in.config();
    let me = config.owner.clone();
    let survivor = KubernetesLauncher::start(config).await.unwrap();
    let mine = survivor.launch(&shape(Language::Bash)).await.unwrap();
    // A pod whose worker ended before it attached: nobody's input ends with it.
    let kubeconfig =
        stand_in.cluster.kubeconfig("admin", NAMESPACE, vec![cluster::RbacRule::all()]).unwrap();
    let mut orphan = stand_in.cluster.pods()[0].clone();
    orphan.metadata.name = Some("skillbox-run-orphan".to_owned());
    orphan.metadata.labels.as_mut().unwrap().insert("skillbox.owner".to_owned(), "dead".to_owned());
    orphan.metadata.labels.as_mut().unwrap().insert("skillbox.lease".to_owned(), "1".to_owned());
    orphan.spec.as_mut().unwrap().node_name = None;
    orphan.metadata.resource_version = None;
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let config: kube::config::Kubeconfig = serde_json::from_str(&text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
    let api: kube::Api<Pod> =
        kube::Api::namespaced(kube::Client::try_from(config).unwrap(), NAMESPACE);
    api.create(&Default::default(), &orphan).await.unwrap();
    let until = tokio::time::Instant::now() + 6 * SHORT_TIMEOUT;
    let left = || stand_in.cluster.pods().len();
    while left() > 1 {
        assert!(tokio::time::Instant::now() < until, "{} pods are left", left());
        survivor.sweep(&me).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let ran = mine
        .run(
            &job(Language::Bash, "exit 0"),
            CancellationToken::new(),
            &mut RecordingSink::default(),
        )
        .await;
    assert_eq!(ran.unwrap().exit_code, Some(0));
    assert!(stand_in.cluster.wait_until_empty().await);
}

#[tokio::test]
async fn a_worker_sweeps_its_own_unremoved_pods() {
    if !Backend::Pod.is_available("a sweep of one's own") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let config = KubernetesConfig { removal_timeout: Duration::ZERO, ..stand_in.config() };
    let me = config.owner.clone();
    let launcher = KubernetesLauncher::start(config).await.unwrap();
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    // The removal fails, and is not retried.
    stand_in.cluster.stop_api().await;
    guest.discard().await;
    stand_in.cluster.resume_api().unwrap();
    let used = launcher.launch(&shape(Language::Bash)).await.unwrap();
    assert_eq!(
        stand_in.cluster.pods().len(),
        2,
        "one that nobody removes, and one that waits for its job"
    );
    let until = tokio::time::Instant::now() + 6 * SHORT_TIMEOUT;
    while stand_in.cluster.pods().len() > 1 {
        assert!(tokio::time::Instant::now() < until, "{:?}", stand_in.cluster.pods());
        launcher.sweep(&me).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let ran = used
        .run(
            &job(Language::Bash, "exit 0"),
            CancellationToken::new(),
            &mut RecordingSink::default(),
        )
        .await;
    assert_eq!(ran.unwrap().exit_code, Some(0));
    assert!(stand_in.cluster.wait_until_empty().await);
}
