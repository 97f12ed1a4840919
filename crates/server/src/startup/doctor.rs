//! Checks of the services that a configuration names, for `skillbox doctor`.

use std::time::Duration;

use blobs::Blobs;
use serde::Serialize;
use store::Store;

use crate::config::{Config, SandboxSettings};
use crate::error::error_chain;
use crate::startup::assemble::{docker_launcher_config, kubernetes_launcher_config, s3_config};

/// How long a service may take to respond.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(20);
/// Older versions get no fixes from the Postgres project.
const MIN_SUPPORTED_POSTGRES: u32 = 14;

/// The configuration with which a server would connect to Docker, when skills run there.
pub fn docker_config(config: &Config) -> Option<sandbox::DockerConfig> {
    match &config.sandbox {
        SandboxSettings::Native | SandboxSettings::Kubernetes(_) => None,
        SandboxSettings::Docker(docker) => Some(docker_launcher_config(config, docker, "doctor")),
    }
}

/// The configuration with which a server would connect to the cluster, when skills run there.
pub fn kubernetes_config(config: &Config) -> Option<sandbox::KubernetesConfig> {
    match &config.sandbox {
        SandboxSettings::Native | SandboxSettings::Docker(_) => None,
        SandboxSettings::Kubernetes(kubernetes) => {
            Some(kubernetes_launcher_config(config, kubernetes, "doctor"))
        }
    }
}

/// The check of one service.
#[derive(Debug, Serialize)]
pub struct Service {
    pub name: &'static str,
    pub ok: bool,
    /// The version or address, or what is wrong.
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Checks every service besides the sandbox; there is none in the embedded mode. Missing buckets are
/// created, as at a start; of the database only the version is read.
pub async fn services(config: &Config) -> Vec<Service> {
    let mut services = Vec::new();
    if config.is_postgres() {
        services.push(postgres(&config.dsn()).await);
    }
    if let Some(s3) = &config.s3 {
        let opened =
            tokio::time::timeout(SERVICE_TIMEOUT, Blobs::s3(s3_config(s3, config.role))).await;
        services.push(match opened {
            Ok(Ok(_)) => {
                let buckets = format!("{} and {}", s3.bucket_skills, s3.bucket_executions);
                Service {
                    name: "s3",
                    ok: true,
                    detail: format!("{}, buckets {buckets}", s3.endpoint),
                    warning: None,
                }
            }
            Ok(Err(error)) => failed("s3", error_chain(&error)),
            Err(_) => failed("s3", "did not respond in time".to_owned()),
        });
    }
    services
}

async fn postgres(dsn: &str) -> Service {
    match tokio::time::timeout(SERVICE_TIMEOUT, Store::server_version(dsn)).await {
        Ok(Ok(version)) => {
            let major = version
                .split(|c: char| !c.is_ascii_digit())
                .next()
                .and_then(|text| text.parse().ok());
            let old = major.is_some_and(|major: u32| major < MIN_SUPPORTED_POSTGRES);
            let warning = old.then(|| {
                format!("Postgres before {MIN_SUPPORTED_POSTGRES} gets no fixes, and Skillbox is not tested with it.")
            });
            Service { name: "postgres", ok: true, detail: version, warning }
        }
        Ok(Err(error)) => failed("postgres", error_chain(&error)),
        Err(_) => failed("postgres", "did not respond in time".to_owned()),
    }
}

fn failed(name: &'static str, detail: String) -> Service {
    Service { name, ok: false, detail, warning: None }
}
