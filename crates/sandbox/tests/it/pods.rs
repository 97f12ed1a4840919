//! A cluster for the Kubernetes launcher: our stand-in, or a configured real one.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use cluster::{ClusterImage, ClusterSettings, RbacRule, TestCluster};
use language::Language;
use sandbox::{
    Guest, Images, Isolation, KubernetesConfig, KubernetesLauncher, LaunchError, Launcher, Owner,
    Shape, copy_guest,
};
use tempfile::TempDir;

use crate::support::{MIB, owner};

pub(crate) const NAMESPACE: &str = "skillbox-sandboxes";
const GUEST_IMAGE: &str = "skillbox/skillbox:test";

/// What `skillbox guest-copy` of the real image does.
const COPY: &str = "#!/bin/sh
[ \"$1\" = guest-copy ] && [ \"$(sha256sum </opt/image/guest | cut -d' ' -f1)\" = \"$3\" ] &&
    cp /opt/image/guest \"$2/skillbox-guest\" && chmod 0555 \"$2/skillbox-guest\"
";

/// The kubeconfig of a real cluster, as `scripts/test-cluster.sh` names it.
fn real_cluster() -> Option<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "how the test scripts say where their cluster is"
    )]
    std::env::var_os("SKILLBOX_TEST_CLUSTER_WORKER").map(PathBuf::from)
}

/// Whether pods can run. If not, it prints that the test was skipped.
pub(crate) fn is_available(test: &str) -> bool {
    let missing = if real_cluster().is_some() { None } else { cluster::missing_requirement() };
    if let Some(missing) = &missing {
        println!("NEEDS ROOT: {test} was not run on kubernetes, because there is no {missing}");
    }
    missing.is_none()
}

/// Exactly the permissions of a worker.
pub(crate) fn worker_rules() -> Vec<RbacRule> {
    vec![
        RbacRule::new(NAMESPACE, "pods", &["create", "get", "list", "watch", "delete"]),
        RbacRule::new(NAMESPACE, "pods/attach", &["get", "create"]),
    ]
}

/// A separate stand-in cluster with the images for our pods.
pub(crate) struct StandIn {
    pub cluster: TestCluster,
    pub kubeconfig: PathBuf,
    _programs: TempDir,
}

impl StandIn {
    pub(crate) fn start() -> StandIn {
        let programs = tempfile::tempdir().unwrap();
        copy_guest(programs.path(), None).unwrap();
        let copy = programs.path().join("copy");
        std::fs::write(&copy, COPY).unwrap();
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
        let guest = ClusterImage::new(GUEST_IMAGE)
            .with_program("skillbox", copy)
            .with_program("guest", programs.path().join("skillbox-guest"));
        let runtimes = ["python", "node", "bash"]
            .map(|name| ClusterImage::new(&format!("skillbox/{name}:test")));
        let images = runtimes.into_iter().chain([guest]).collect();
        let cluster =
            TestCluster::start(ClusterSettings { images, ..ClusterSettings::new(NAMESPACE) })
                .unwrap();
        let user = "system:serviceaccount:skillbox:skillbox-worker";
        let kubeconfig = cluster.kubeconfig(user, NAMESPACE, worker_rules()).unwrap();
        StandIn { cluster, kubeconfig, _programs: programs }
    }

    pub(crate) fn config(&self) -> KubernetesConfig {
        config(self.kubeconfig.clone())
    }
}

pub(crate) fn config(kubeconfig: PathBuf) -> KubernetesConfig {
    let images = Images::new(|language| format!("skillbox/{language}:test"));
    KubernetesConfig {
        owner: owner(),
        kubeconfig: Some(kubeconfig),
        namespace: NAMESPACE.to_owned(),
        runtime_class: None,
        guest_image: GUEST_IMAGE.to_owned(),
        seccomp_profile: None,
        user_namespaces: false,
        schedule_timeout: Duration::from_secs(20),
        lifetime: Duration::from_secs(600),
        removal_timeout: Duration::from_secs(60),
        max_output_bytes: 512 * MIB,
        allowlist: Language::ALL.map(|language| images.image_for(language).to_owned()).to_vec(),
        images,
        require: vec![],
    }
}

/// A launcher with its cluster.
pub(crate) struct Pods {
    launcher: KubernetesLauncher,
    _stand_in: Option<StandIn>,
}

impl Pods {
    pub(crate) async fn start() -> Pods {
        let stand_in = if real_cluster().is_some() { None } else { Some(StandIn::start()) };
        let kubeconfig = real_cluster()
            .or_else(|| stand_in.as_ref().map(|stand_in| stand_in.kubeconfig.clone()));
        let launcher = KubernetesLauncher::start(config(kubeconfig.unwrap())).await.unwrap();
        Pods { launcher, _stand_in: stand_in }
    }
}

#[async_trait]
impl Launcher for Pods {
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError> {
        self.launcher.launch(shape).await
    }

    async fn sweep(&self, owner: &Owner) -> Result<usize, LaunchError> {
        self.launcher.sweep(owner).await
    }

    async fn probe(&self) -> Result<Isolation, LaunchError> {
        self.launcher.probe().await
    }
}
