//! Where skills run.

use std::time::Duration;

use sandbox::Images;

use super::ConfigError;
use super::parse::{docker_host, duration, flag, image, namespace, profile, sandbox_kind, word};
use super::reader::{SettingReader, invalid};

/// The kind of sandbox.
#[derive(Clone, Debug)]
pub enum SandboxSettings {
    Native,
    Docker(DockerSettings),
    Kubernetes(KubernetesSettings),
}

/// The same without what goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SandboxKind {
    Native,
    Docker,
    Kubernetes,
}

/// A Docker engine, and what runs in it.
#[derive(Clone, Debug)]
pub struct DockerSettings {
    /// `unix://…` or `tcp://…`.
    pub host: String,
    /// The OCI runtime by name; the engine's own choice when absent.
    pub runtime: Option<String>,
    pub images: Images,
}

/// A namespace of a cluster, and what runs in it.
#[derive(Clone, Debug)]
pub struct KubernetesSettings {
    pub namespace: String,
    /// The cluster's own choice when absent.
    pub runtime_class: Option<String>,
    pub guest_image: String,
    /// The container runtime's default when absent.
    pub seccomp_profile: Option<String>,
    pub user_namespaces: bool,
    pub schedule_timeout: Duration,
    pub images: Images,
}

impl SandboxSettings {
    pub(super) fn read(
        read: &SettingReader<'_>,
        allowlist: &[String],
    ) -> Result<SandboxSettings, ConfigError> {
        // Also where it is not used: a bad value never waits for the day that it is.
        read.get("docker_host", docker_host)?;
        read.optional("docker_runtime", word)?;
        let cluster = KubernetesValues::read(read)?;
        match read.get("sandbox", sandbox_kind)? {
            SandboxKind::Native => Ok(SandboxSettings::Native),
            SandboxKind::Docker => {
                Ok(SandboxSettings::Docker(DockerSettings::read(read, allowlist)?))
            }
            SandboxKind::Kubernetes => {
                Ok(SandboxSettings::Kubernetes(cluster.with_images(images(read, allowlist)?)?))
            }
        }
    }
}

impl DockerSettings {
    pub(super) fn read(
        read: &SettingReader<'_>,
        allowlist: &[String],
    ) -> Result<DockerSettings, ConfigError> {
        Ok(DockerSettings {
            host: read.get("docker_host", docker_host)?,
            runtime: read.optional("docker_runtime", word)?,
            images: images(read, allowlist)?,
        })
    }
}

/// What is said of a cluster, whether or not it is used.
struct KubernetesValues {
    namespace: String,
    runtime_class: Option<String>,
    guest_image: Option<String>,
    seccomp_profile: Option<String>,
    user_namespaces: bool,
    schedule_timeout: Duration,
}

impl KubernetesValues {
    fn read(read: &SettingReader<'_>) -> Result<KubernetesValues, ConfigError> {
        Ok(KubernetesValues {
            namespace: read.get("kube_namespace", namespace)?,
            runtime_class: read.optional("kube_runtime_class", namespace)?,
            guest_image: read.optional("kube_guest_image", image)?,
            seccomp_profile: read.optional("kube_seccomp_profile", profile)?,
            user_namespaces: read.get("kube_user_namespaces", flag)?,
            schedule_timeout: read.get("kube_schedule_timeout", duration)?,
        })
    }

    fn with_images(self, images: Images) -> Result<KubernetesSettings, ConfigError> {
        let Some(guest_image) = self.guest_image else {
            return Err(invalid(
                "kube_guest_image",
                "is needed with SKILLBOX_SANDBOX=kubernetes: the image of this server, from which pods get their guest",
            ));
        };
        let KubernetesValues {
            namespace,
            runtime_class,
            seccomp_profile,
            user_namespaces,
            schedule_timeout,
            ..
        } = self;
        Ok(KubernetesSettings {
            namespace,
            runtime_class,
            guest_image,
            seccomp_profile,
            user_namespaces,
            schedule_timeout,
            images,
        })
    }
}

/// The image of each language; each must be on the allowlist.
fn images(read: &SettingReader<'_>, allowlist: &[String]) -> Result<Images, ConfigError> {
    Images::try_new(|language| {
        let key = language.spec().image_setting;
        let image = read.get(key, image)?;
        match allowlist.contains(&image) {
            true => Ok(image),
            false => Err(invalid(key, format!("`{image}` is not on SKILLBOX_IMAGE_ALLOWLIST"))),
        }
    })
}
