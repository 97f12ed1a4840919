//! What only a cluster can do wrong, one thing at a time: the right outcome, and no pod left.

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

/// Long enough for a machine under load, short enough for a test.
const SOON: Duration = Duration::from_secs(5);

async fn launcher(stand_in: &StandIn) -> KubernetesLauncher {
    KubernetesLauncher::start(stand_in.config()).await.unwrap()
}

/// Runs what never ends by itself, and does `trouble` once it runs.
async fn troubled(
    stand_in: &StandIn,
    launcher: &dyn Launcher,
    trouble: impl AsyncFnOnce(&Pod),
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
        trouble(&stand_in.cluster.pods()[0]).await;
    });
    ran
}

/// The same launcher still works, and nothing of any pod is left.
async fn goes_on(stand_in: &StandIn, launcher: &dyn Launcher) {
    let (ran, kept) =
        run_in(launcher, &shape(Language::Bash), &job(Language::Bash, "echo fine")).await;
    assert_eq!((ran.outcome, kept.text().as_str()), (Outcome::Exited, "fine\n"));
    assert!(stand_in.cluster.wait_until_empty().await, "{:?}", stand_in.cluster.pods());
}

#[tokio::test]
async fn a_run_survives_watches_that_break_and_are_too_old() {
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
    goes_on(&stand_in, &launcher).await;
}

#[tokio::test]
async fn an_api_server_that_goes_away_costs_the_run_under_way_and_leaves_no_pod() {
    if !Backend::Pod.is_available("an API server that goes away") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let launcher = launcher(&stand_in).await;
    let ran = troubled(&stand_in, &launcher, async |_| {
        stand_in.cluster.stop_api().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        stand_in.cluster.resume_api().unwrap();
    });
    assert_eq!(ran.await.unwrap().outcome, Outcome::Lost);
    goes_on(&stand_in, &launcher).await;
    // One that is away when somebody asks for a sandbox is an error, and never a hang.
    stand_in.cluster.stop_api().await;
    assert!(launcher.launch(&shape(Language::Bash)).await.is_err());
    stand_in.cluster.resume_api().unwrap();
    goes_on(&stand_in, &launcher).await;
}

#[tokio::test]
async fn what_ends_a_pod_from_outside_is_a_lost_run_that_says_why() {
    if !Backend::Pod.is_available("pods that are ended") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let launcher = launcher(&stand_in).await;
    let evicted = troubled(&stand_in, &launcher, async |pod| {
        stand_in.cluster.evict(pod, "The node was low on resource: memory.");
    });
    let ran = evicted.await.unwrap();
    assert_eq!(ran.outcome, Outcome::Lost);
    assert!(ran.cause.is_some(), "an eviction has a reason");
    let cut = troubled(&stand_in, &launcher, async |_| stand_in.cluster.drop_attachments())
        .await
        .unwrap();
    assert_eq!(cut.outcome, Outcome::Lost);
    let lost = troubled(&stand_in, &launcher, async |pod| {
        stand_in.cluster.lose_node(pod);
        stand_in.cluster.mark_node_lost(pod);
    });
    let ran = lost.await.unwrap();
    assert_eq!(ran.outcome, Outcome::Lost);
    assert!(ran.cause.is_some(), "a node that is lost is a reason");
    goes_on(&stand_in, &launcher).await;
}

#[tokio::test]
async fn no_room_is_waited_for_and_then_said() {
    if !Backend::Pod.is_available("no room") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let impatient =
        KubernetesConfig { schedule_timeout: Duration::from_secs(2), ..stand_in.config() };
    let impatient = KubernetesLauncher::start(impatient).await.unwrap();
    let none = ResourceQuota { name: "compute".into(), hard: [("pods".to_owned(), 0.0)].into() };
    stand_in.cluster.set_quota(Some(none.clone()));
    let error = impatient.launch(&shape(Language::Bash)).await.err().unwrap();
    assert!(
        matches!(&error, LaunchError::NoRoom(said) if said.contains("exceeded quota: compute")),
        "{error}"
    );
    stand_in.cluster.set_quota(None);
    stand_in.cluster.set_node_full(true);
    let error = impatient.launch(&shape(Language::Bash)).await.err().unwrap();
    assert!(
        matches!(&error, LaunchError::NoRoom(said) if said.contains("Insufficient memory")),
        "{error}"
    );
    assert!(stand_in.cluster.wait_until_empty().await);
    // Room that comes in time is taken.
    let patient = launcher(&stand_in).await;
    let bash = shape(Language::Bash);
    let (launched, ()) = tokio::join!(patient.launch(&bash), async {
        assert!(stand_in.cluster.wait_until(|pods| !pods.is_empty()).await);
        stand_in.cluster.set_node_full(false);
    });
    launched.unwrap().discard().await;
    stand_in.cluster.set_quota(Some(none));
    let (launched, ()) = tokio::join!(patient.launch(&bash), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stand_in.cluster.set_quota(None);
    });
    launched.unwrap().discard().await;
    goes_on(&stand_in, &patient).await;
}

#[tokio::test]
async fn an_image_that_is_missing_and_a_right_that_is_missing_are_named() {
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
    goes_on(&stand_in, &launcher).await;
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
    goes_on(&stand_in, &launcher).await;
}

/// Whether the script sees a file of the image that somebody pushed, and what is reported as its
/// image.
async fn which_image(launcher: &dyn Launcher) -> (String, String) {
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    let image = guest.isolation().image.clone().unwrap();
    let mut kept = RecordingSink::default();
    let look =
        job(Language::Bash, "if [ -e /opt/image/planted ]; then echo planted; else echo own; fi");
    guest.run(&look, CancellationToken::new(), &mut kept).await.unwrap();
    (kept.text().trim().to_owned(), image)
}

#[tokio::test]
async fn a_tag_that_is_moved_does_not_change_what_a_worker_runs() {
    if !Backend::Pod.is_available("a moved tag") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let worker = launcher(&stand_in).await;
    let (seen, first) = which_image(&worker).await;
    assert_eq!(seen, "own");
    assert!(first.starts_with("skillbox/bash@sha256:"), "{first}");

    // The attack: somebody who may push to the registry moves the tag.
    let planted = tempfile::NamedTempFile::new().unwrap();
    let image =
        ClusterImage::new("skillbox/bash:test").with_program("planted", planted.path().to_owned());
    stand_in.cluster.move_tag(image);
    assert_eq!(which_image(&worker).await, ("own".to_owned(), first.clone()));
    // Control: a pod that is asked for by its name, as the first of a worker is, runs the new
    // image, and says so.
    let (seen, second) = which_image(&launcher(&stand_in).await).await;
    assert_eq!(seen, "planted");
    assert_ne!(second, first);
    // Named by digest in the configuration, it is the same from the first pod on.
    let mut config = stand_in.config();
    config.images = sandbox::Images::new(|_| first.clone());
    config.allowlist.push(first.clone());
    let exact = KubernetesLauncher::start(config).await.unwrap();
    assert_eq!(which_image(&exact).await, ("own".to_owned(), first.clone()));

    // What the digest leads to is gone: the worker says what it keeps to, and how to change that.
    stand_in.cluster.set_image_missing("skillbox/bash:test", true);
    let error = worker.launch(&shape(Language::Bash)).await.err().unwrap();
    assert!(matches!(&error, LaunchError::ImageUnfit { image, .. } if *image == first), "{error}");
    assert!(error.to_string().contains("restart it"), "{error}");
    assert!(stand_in.cluster.wait_until_empty().await, "{:?}", stand_in.cluster.pods());
}

/// Two first pods at once, of which the second finds the tag moved: both runs end up on one image.
#[tokio::test]
async fn first_pods_at_the_same_time_agree_on_an_image() {
    if !Backend::Pod.is_available("a tag that is moved between two first pods") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let worker = launcher(&stand_in).await;
    // Both pods are asked for by name, and then wait for a node.
    stand_in.cluster.set_node_full(true);
    let both = async { tokio::join!(which_image(&worker), which_image(&worker)) };
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
async fn a_slow_api_is_waited_for() {
    if !Backend::Pod.is_available("a slow API") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let launcher = launcher(&stand_in).await;
    stand_in.cluster.set_response_delay(Duration::from_millis(700));
    goes_on(&stand_in, &launcher).await;
}

#[tokio::test]
async fn what_a_dead_worker_left_is_swept_and_what_lives_stays() {
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
    let until = tokio::time::Instant::now() + 6 * SOON;
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
async fn what_a_worker_could_not_remove_itself_it_sweeps_later() {
    if !Backend::Pod.is_available("a sweep of one's own") {
        return;
    }
    let _machine = MACHINE.read().await;
    let stand_in = StandIn::start();
    let config = KubernetesConfig { removal_timeout: Duration::ZERO, ..stand_in.config() };
    let me = config.owner.clone();
    let launcher = KubernetesLauncher::start(config).await.unwrap();
    let guest = launcher.launch(&shape(Language::Bash)).await.unwrap();
    // There is nobody to remove it, and no second try.
    stand_in.cluster.stop_api().await;
    guest.discard().await;
    stand_in.cluster.resume_api().unwrap();
    let used = launcher.launch(&shape(Language::Bash)).await.unwrap();
    assert_eq!(
        stand_in.cluster.pods().len(),
        2,
        "one that nobody removes, and one that waits for its job"
    );
    let until = tokio::time::Instant::now() + 6 * SOON;
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
