//! Whether the services that a configuration names can be used, for `skillbox doctor`.

use std::time::Duration;

use blobs::Blobs;
use serde::Serialize;
use store::Store;

use crate::config::{Config, SandboxSettings};
use crate::error::error_chain;
use crate::startup::assemble::{in_docker, in_kubernetes, s3_config};

/// What a service may take to answer.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(20);
/// Older ones are looked after by nobody any more.
const MIN_SUPPORTED_POSTGRES: u32 = 14;

/// How a start would reach the Docker engine, when skills are to run there.
pub fn docker_config(config: &Config) -> Option<sandbox::DockerConfig> {
    match &config.sandbox {
        SandboxSettings::Native | SandboxSettings::Kubernetes(_) => None,
        SandboxSettings::Docker(docker) => Some(in_docker(config, docker, "doctor")),
    }
}

/// How a start would reach the cluster, when skills are to run there.
pub fn kubernetes_config(config: &Config) -> Option<sandbox::KubernetesConfig> {
    match &config.sandbox {
        SandboxSettings::Native | SandboxSettings::Docker(_) => None,
        SandboxSettings::Kubernetes(kubernetes) => {
            Some(in_kubernetes(config, kubernetes, "doctor"))
        }
    }
}

/// One service.
#[derive(Debug, Serialize)]
pub struct Service {
    pub name: &'static str,
    pub ok: bool,
    /// What was found, or what is wrong.
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Looks at every service beside the sandbox; none in the embedded mode. The buckets are made if
/// they are missing, as a start would make them; the database is only asked for its version.
pub async fn services(config: &Config) -> Vec<Service> {
    let mut services = Vec::new();
    if config.is_postgres() {
        services.push(postgres(&config.dsn()).await);
    }
    if let Some(s3) = &config.s3 {
        let made =
            tokio::time::timeout(SERVICE_TIMEOUT, Blobs::s3(s3_config(s3, config.role))).await;
        services.push(match made {
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
            Err(_) => failed("s3", "did not answer in time".to_owned()),
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
                format!("Postgres before {MIN_SUPPORTED_POSTGRES} gets no fixes any more, and Skillbox is not tested with it.")
            });
            Service { name: "postgres", ok: true, detail: version, warning }
        }
        Ok(Err(error)) => failed("postgres", error_chain(&error)),
        Err(_) => failed("postgres", "did not answer in time".to_owned()),
    }
}

fn failed(name: &'static str, detail: String) -> Service {
    Service { name, ok: false, detail, warning: None }
}
