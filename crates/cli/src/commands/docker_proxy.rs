//! `skillbox docker-proxy`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use docker_proxy::{Address, ContainerPolicy, Proxy, ProxyLimits};
use serde_json::json;
use server::config::Config;
use tokio::signal::unix::{SignalKind, signal};

use crate::output::{Output, note};

#[derive(Args)]
pub(crate) struct DockerProxyArgs {
    /// Address to listen on. Servers set it as their SKILLBOX_DOCKER_HOST.
    #[arg(
        long,
        env = "SKILLBOX_PROXY_LISTEN",
        value_name = "ADDRESS",
        default_value = "tcp://127.0.0.1:2375"
    )]
    listen: Address,
    /// The Docker engine, or another proxy in front of it.
    #[arg(
        long,
        env = "SKILLBOX_PROXY_ENGINE",
        value_name = "ADDRESS",
        default_value = "unix:///var/run/docker.sock"
    )]
    engine: Address,
    /// Name of this proxy. It gives access only to objects that a proxy with this name created.
    #[arg(long, env = "SKILLBOX_PROXY_NAME", value_name = "NAME", default_value = "skillbox", value_parser = parse_name)]
    name: String,
    /// OCI runtimes that servers may request, separated by commas. By default only the engine's
    /// default runtime.
    #[arg(long, env = "SKILLBOX_DOCKER_RUNTIME", value_name = "NAMES", value_delimiter = ',')]
    runtime: Vec<String>,
    /// Images that containers may use, separated by commas [default: the server's] [env:
    /// SKILLBOX_IMAGE_ALLOWLIST]
    #[arg(long, value_name = "IMAGES")]
    image_allowlist: Option<String>,
    /// Maximum memory of a container [default: 1Gi] [env: SKILLBOX_MAX_MEMORY]
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<String>,
    /// Maximum CPUs of a container [default: 4] [env: SKILLBOX_MAX_CPU]
    #[arg(long, value_name = "CPUS")]
    max_cpu: Option<String>,
    /// Maximum number of processes in a container.
    #[arg(long, env = "SKILLBOX_PROXY_MAX_PIDS", value_name = "NUMBER", default_value_t = 2048)]
    max_pids: u32,
    /// Maximum number of volumes with a guest program that servers may create on the engine.
    #[arg(long, env = "SKILLBOX_PROXY_MAX_VOLUMES", value_name = "NUMBER", default_value_t = 32)]
    max_volumes: u32,
    /// Host names by which servers reach this proxy, separated by commas. The address in --listen and
    /// loopback are always accepted.
    #[arg(long, env = "SKILLBOX_PROXY_HOSTS", value_name = "NAMES", value_delimiter = ',', value_parser = parse_host)]
    hosts: Vec<String>,
    /// Additional seccomp profile that servers may request, for servers of another version.
    #[arg(long, value_name = "FILE")]
    seccomp: Vec<PathBuf>,
    /// Check whether the engine answers through the proxy that listens on that address, and exit.
    #[arg(long)]
    check: bool,
}

/// Checks the name of the proxy. It is the value of a label, which the engine compares exactly.
fn parse_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text.is_empty() || text.len() > 64 || !text.bytes().all(plain) {
        return Err("use up to 64 letters, digits, dots, dashes and underscores".to_owned());
    }
    Ok(text.to_owned())
}

/// Checks a host name as it appears in a request, without its port.
fn parse_host(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    let port = text.matches(':').count() == 1;
    if text.is_empty() || text.len() > 253 || port || !text.bytes().all(plain) {
        return Err("give a name or an address, without a port".to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) async fn run(args: DockerProxyArgs, output: Output) -> Result<ExitCode> {
    if args.check {
        docker_proxy::ping(&args.listen).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = Config::load(&settings(&args))?;
    server::start_logging(&config);
    let config = docker_proxy::ProxyConfig {
        listen: args.listen.clone(),
        engine: args.engine.clone(),
        hosts: args.hosts.clone(),
        policy: policy(&args, &config)?,
        limits: ProxyLimits { drain_timeout: config.drain_timeout, ..ProxyLimits::default() },
    };
    let proxy = Proxy::bind(config).await?;
    announce(&proxy.address()?, &args.engine, output)?;
    proxy.serve(stop_signal()?).await;
    Ok(ExitCode::SUCCESS)
}

/// Settings that the server also has are read in the same way: from flags, the environment and the
/// configuration file.
fn settings(args: &DockerProxyArgs) -> server::config::Args {
    let given = [
        ("image_allowlist", args.image_allowlist.clone()),
        ("max_memory", args.max_memory.clone()),
        ("max_cpu", args.max_cpu.clone()),
        // The proxy stores nothing. A fixed directory lets it start without a home directory.
        ("data_dir", Some("/".to_owned())),
    ];
    let values =
        given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    server::config::Args { values, ..server::config::Args::default() }
}

fn policy(args: &DockerProxyArgs, config: &Config) -> Result<ContainerPolicy> {
    let mut seccomp = vec![sandbox::seccomp_profile()];
    for path in &args.seccomp {
        let profile = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        seccomp.push(profile.trim().to_owned());
    }
    Ok(ContainerPolicy {
        instance: args.name.clone(),
        images: config.image_allowlist.clone(),
        runtimes: args.runtime.clone(),
        seccomp,
        filler: sandbox::FILLER_ENTRYPOINT.map(str::to_owned).to_vec(),
        max_memory_bytes: i64::try_from(config.run_policy.max_memory_bytes).unwrap_or(i64::MAX),
        max_nano_cpus: i64::from(config.run_policy.max_cpu_millis) * 1_000_000,
        max_pids: i64::from(args.max_pids),
        max_guest_bytes: sandbox::MAX_FILL_BYTES.cast_signed(),
        working_dirs: vec!["/".to_owned()],
        max_image_volumes: 0,
        max_volumes: args.max_volumes as usize,
    })
}

fn announce(listen: &Address, engine: &Address, output: Output) -> Result<()> {
    if output.is_json() {
        output.line(
            &json!({"listen": listen.to_string(), "engine": engine.to_string()}).to_string(),
        )?;
        return Ok(());
    }
    note(&format!(
        "skillbox docker-proxy listens at {listen}, in front of {engine} (stop it with Ctrl-C)"
    ));
    Ok(())
}

/// Completes when the process receives SIGTERM or SIGINT.
fn stop_signal() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_no_port() {
        assert_eq!(parse_host("docker-proxy"), Ok("docker-proxy".to_owned()));
        assert_eq!(parse_host("fd00::1"), Ok("fd00::1".to_owned()));
        for text in ["", "docker-proxy:2375", "http://docker-proxy", "a b", "ä", "*"] {
            assert!(parse_host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_valid_label_values() {
        assert_eq!(parse_name("skillbox-eu.1"), Ok("skillbox-eu.1".to_owned()));
        for text in ["", "a b", "a=b", "ä", &"a".repeat(65)] {
            assert!(parse_name(text).is_err(), "{text}");
        }
    }
}
