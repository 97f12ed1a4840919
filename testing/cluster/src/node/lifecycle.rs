//! The lifecycle of one pod: scheduling, image pulls, init containers, containers, end and removal.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as ContainerSpec, Pod};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::container::{ContainerExit, ContainerStart, RuncContainer};
use super::volumes::PodVolumes;
use super::{ClusterNode, HostedPod, NodeCommand, bundle, cgroup, status};
use crate::defaults::now;

pub(super) const NODE: &str = "node-1";

/// The delay between image pulls, far shorter than on a real node.
const PULL_RETRY_DELAY: Duration = Duration::from_millis(300);

/// An event that interrupts the normal lifecycle of a pod.
enum Interrupt {
    /// Its object was deleted without a grace period.
    Removed,
    /// It was deleted with this grace period.
    DeleteQuery(Duration),
    /// It reached its deadline.
    Deadline,
    Evicted(String),
    /// The node's machine has failed.
    Lost,
    /// The test cluster shuts down.
    End,
}

struct PodLifecycle {
    node: Arc<ClusterNode>,
    hosted: Arc<HostedPod>,
    pod: Pod,
    /// The number of the pod on this node.
    number: u32,
    directory: PathBuf,
    /// The name of its cgroup, unique on this machine.
    group: String,
}

pub(super) async fn run_pod(
    node: Arc<ClusterNode>,
    pod: Pod,
    hosted: Arc<HostedPod>,
    mut orders: UnboundedReceiver<NodeCommand>,
) {
    let number = node.next_number();
    let cluster = node
        .setup
        .directory
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let lifecycle = PodLifecycle {
        directory: node
            .setup
            .directory
            .join("pods")
            .join(pod.metadata.uid.clone().unwrap_or_default()),
        // The tests' inventories recognize by this name which cgroups belong to this process.
        group: format!("skillbox-{}-{cluster}-{number}", std::process::id()),
        node,
        hosted,
        pod,
        number,
    };
    if lifecycle.wait_for_scheduling(&mut orders).await {
        lifecycle.run_on_node(&mut orders).await;
    }
}

impl PodLifecycle {
    /// Waits until the node has capacity; false when the pod is removed before.
    async fn wait_for_scheduling(&self, orders: &mut UnboundedReceiver<NodeCommand>) -> bool {
        let mut changes = self.node.faults.changes();
        while self.node.faults.now().node_full {
            let why = "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
            self.update(|pod| {
                status::condition(pod, "PodScheduled", false, Some(("Unschedulable", why)))
            });
            tokio::select! {
                _ = changes.changed() => {}
                _ = self.next_interrupt(orders, None) => return false,
            }
        }
        let ip = format!("10.1.{}.{}", self.number / 250, self.number % 250 + 2);
        self.update(|pod| status::bound(pod, NODE)) && self.update(|pod| status::accepted(pod, &ip))
    }

    async fn run_on_node(&self, orders: &mut UnboundedReceiver<NodeCommand>) {
        let seconds = self.pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        let deadline =
            seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.unsigned_abs()));
        let made = self.make().await;
        let next_interrupt = match &made {
            Ok(volumes) => {
                tokio::select! {
                    over = self.run(volumes) => {
                        if let Err(error) = over {
                            self.update(|pod| status::over(pod, false, Some(("Failed", &error.to_string()))));
                        }
                        None
                    }
                    next_interrupt = self.next_interrupt(orders, deadline) => Some(next_interrupt),
                }
            }
            Err(error) => {
                self.update(|pod| {
                    status::over(pod, false, Some(("FailedMount", &error.to_string())))
                });
                None
            }
        };
        let wait_for_deletion = self.handle_interrupt(next_interrupt).await;
        if let Ok(volumes) = made {
            volumes.end().await;
        }
        cgroup::remove(&self.group);
        let _ = tokio::fs::remove_dir_all(&self.directory).await;
        if !wait_for_deletion {
            self.wait_for_deletion(orders).await;
        }
    }

    async fn make(&self) -> io::Result<PodVolumes> {
        cgroup::make(&self.group, self.node.setup.pod_pids)?;
        PodVolumes::make(&self.pod, &self.directory.join("volumes")).await
    }

    /// Runs the init containers one after the other, then all containers at once.
    async fn run(&self, volumes: &PodVolumes) -> io::Result<()> {
        let spec = self.pod.spec.clone().unwrap_or_default();
        for container in spec.init_containers.iter().flatten() {
            let started = self.start(container, volumes).await?;
            if self.finished(container, started).await.code != 0 {
                self.update(|pod| status::over(pod, false, None));
                return Ok(());
            }
        }
        self.update(|pod| status::condition(pod, "Initialized", true, None));
        let mut running = Vec::new();
        for container in &spec.containers {
            running.push((container, self.start(container, volumes).await?));
        }
        if running.iter().any(|(_, container)| container.is_running()) {
            self.update(status::started);
        }
        let mut succeeded = true;
        for (container, started) in running {
            succeeded &= self.finished(container, started).await.code == 0;
        }
        self.update(|pod| status::over(pod, succeeded, None));
        Ok(())
    }

    /// Pulls the image, retrying until it exists, and starts the container.
    async fn start(
        &self,
        spec: &ContainerSpec,
        volumes: &PodVolumes,
    ) -> io::Result<Arc<RuncContainer>> {
        let name = spec.image.clone().unwrap_or_default();
        let image = loop {
            if let Some(image) = self.node.pull(&name) {
                break image;
            }
            let error = format!(
                "failed to pull and unpack image \"{name}\": failed to resolve reference \"{name}\": {name}: not found"
            );
            let back_off = format!("Back-off pulling image \"{name}\": ErrImagePull: {error}");
            self.update(|pod| {
                status::set(pod, &spec.name, None, status::waiting("ErrImagePull", Some(&error)))
            });
            tokio::time::sleep(PULL_RETRY_DELAY).await;
            self.update(|pod| {
                status::set(
                    pod,
                    &spec.name,
                    None,
                    status::waiting("ImagePullBackOff", Some(&back_off)),
                )
            });
            tokio::time::sleep(PULL_RETRY_DELAY).await;
        };
        let cgroup = format!("/{}/{}", self.group, spec.name);
        let places = bundle::BundlePaths {
            volumes: volumes.directory(),
            cgroup: &cgroup,
            profiles: &self.node.setup.profiles,
        };
        let config = match bundle::config(&self.pod, spec, &image, &places) {
            Ok(config) => config,
            Err(why) => {
                let waiting = status::waiting("CreateContainerConfigError", Some(&why));
                self.update(|pod| status::set(pod, &spec.name, None, waiting));
                std::future::pending().await
            }
        };
        let start = ContainerStart {
            id: format!("{}-{}", self.group, spec.name),
            config,
            bundle: self.directory.join("containers").join(&spec.name),
            root: &self.node.setup.directory.join("runc"),
            cgroup,
            stdin: spec.stdin == Some(true),
        };
        let container = RuncContainer::start(start, volumes, &self.node.tasks).await?;
        self.hosted.add(&spec.name, container.clone());
        self.update(|pod| status::pulled(pod, &spec.name, &image));
        container.started().await;
        if container.is_running() {
            self.update(|pod| {
                status::set(pod, &spec.name, Some(&container.id), status::running(&now()))
            });
        }
        Ok(container)
    }

    /// Waits for the end of a container and records it in the status.
    async fn finished(&self, spec: &ContainerSpec, container: Arc<RuncContainer>) -> ContainerExit {
        let since = now();
        let exit = container.ended().await;
        let state = status::terminated(&container.id, &since, &exit);
        self.update(|pod| status::set(pod, &spec.name, Some(&container.id), state));
        exit
    }

    /// Stops the containers because of an interrupt. True when the pod's object is gone as well.
    async fn handle_interrupt(&self, next_interrupt: Option<Interrupt>) -> bool {
        let Some(next_interrupt) = next_interrupt else { return false };
        let (grace, why) = match &next_interrupt {
            Interrupt::Removed | Interrupt::End | Interrupt::Lost => (Duration::ZERO, None),
            Interrupt::DeleteQuery(grace) => (*grace, None),
            Interrupt::Deadline => {
                let message =
                    "Pod was active on the node longer than the specified deadline".to_owned();
                (Duration::ZERO, Some(("DeadlineExceeded", message)))
            }
            Interrupt::Evicted(message) => (Duration::ZERO, Some(("Evicted", message.clone()))),
        };
        if matches!(next_interrupt, Interrupt::Lost) {
            self.hosted.lost.cancel();
        }
        let stop = async |grace: Duration| {
            for container in self.hosted.all() {
                container.stop(grace).await;
            }
        };
        tokio::select! {
            () = stop(grace) => {}
            // A second delete request without a grace period removed the object meanwhile.
            () = self.wait_until_removed(), if !grace.is_zero() => stop(Duration::ZERO).await,
        }
        if let Some((reason, message)) = why {
            // Like a real kubelet, this leaves the states of the containers unchanged.
            self.update(|pod| status::over(pod, false, Some((reason, &message))));
        }
        match next_interrupt {
            Interrupt::Removed | Interrupt::End => true,
            Interrupt::DeleteQuery(_) => {
                self.record_killed_containers();
                self.remove_object().await;
                true
            }
            _ => false,
        }
    }

    /// Records that all containers were killed by a delete request.
    fn record_killed_containers(&self) {
        let exit = ContainerExit { code: 137, out_of_memory: false, not_started: None };
        self.update(|pod| {
            let statuses =
                pod.status.clone().and_then(|status| status.container_statuses).unwrap_or_default();
            for container in statuses {
                let running = container.state.and_then(|state| state.running);
                if let Some(since) = running.and_then(|running| running.started_at) {
                    let id = container.container_id.unwrap_or_default();
                    let id = id.trim_start_matches("containerd://");
                    status::set(
                        pod,
                        &container.name,
                        Some(id),
                        status::terminated(id, &since, &exit),
                    );
                }
            }
            status::over(pod, false, None);
        });
    }

    /// Waits until an ended pod is deleted.
    async fn wait_for_deletion(&self, orders: &mut UnboundedReceiver<NodeCommand>) {
        let lost = self.hosted.lost.is_cancelled();
        loop {
            match self.next_interrupt(orders, None).await {
                Interrupt::Removed | Interrupt::End => return,
                // A lost node cannot confirm the end, so the object stays until a delete request
                // without a grace period.
                Interrupt::DeleteQuery(_) if lost => self.wait_until_removed().await,
                Interrupt::DeleteQuery(_) => return self.remove_object().await,
                Interrupt::Evicted(_) | Interrupt::Lost | Interrupt::Deadline => {}
            }
        }
    }

    /// Removes the object once it has no finalizers.
    async fn remove_object(&self) {
        let (namespace, name, uid) = self.key();
        let mut revisions = self.node.store.revisions();
        while let Some(pod) = self.node.store.get_uid(&namespace, &name, &uid) {
            if pod.metadata.finalizers.unwrap_or_default().is_empty() {
                self.node.store.remove(&namespace, &name, &uid);
                return;
            }
            tokio::select! {
                _ = revisions.changed() => {}
                () = self.node.end.cancelled() => return,
            }
        }
    }

    async fn wait_until_removed(&self) {
        let (namespace, name, uid) = self.key();
        let mut revisions = self.node.store.revisions();
        while self.node.store.get_uid(&namespace, &name, &uid).is_some() {
            tokio::select! {
                _ = revisions.changed() => {}
                () = self.node.end.cancelled() => return,
            }
        }
    }

    async fn next_interrupt(
        &self,
        orders: &mut UnboundedReceiver<NodeCommand>,
        deadline: Option<Instant>,
    ) -> Interrupt {
        let (namespace, name, uid) = self.key();
        let mut revisions = self.node.store.revisions();
        let deadline = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(deadline);
        loop {
            match self.node.store.get_uid(&namespace, &name, &uid) {
                None => return Interrupt::Removed,
                Some(pod) if pod.metadata.deletion_timestamp.is_some() => {
                    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
                    return Interrupt::DeleteQuery(Duration::from_secs(grace.unsigned_abs()));
                }
                Some(_) => {}
            }
            tokio::select! {
                _ = revisions.changed() => {}
                () = &mut deadline => return Interrupt::Deadline,
                () = self.node.end.cancelled() => return Interrupt::End,
                Some(order) = orders.recv() => return match order {
                    NodeCommand::Evict(message) => Interrupt::Evicted(message),
                    NodeCommand::Lose => Interrupt::Lost,
                },
            }
        }
    }

    /// Updates the object; false when it does not exist any more.
    fn update(&self, change: impl FnOnce(&mut Pod)) -> bool {
        let (namespace, name, uid) = self.key();
        self.node.store.update(&namespace, &name, &uid, change).is_some()
    }

    fn key(&self) -> (String, String, String) {
        let metadata = &self.pod.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        (text(&metadata.namespace), text(&metadata.name), text(&metadata.uid))
    }
}
