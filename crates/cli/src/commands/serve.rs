//! `skillbox serve`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use server::Bound;
use server::config::Config;
use tokio::sync::oneshot;

use super::demo::Demo;
use crate::args::Global;
use crate::output::{Output, note};
use crate::{connection, failure};

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// When ready, publish every skill in this directory and run one of them.
    #[arg(long, value_name = "DIR")]
    demo: Option<PathBuf>,
    /// Stop after the demo.
    #[arg(long, requires = "demo")]
    once: bool,
    #[command(flatten)]
    server: server::config::Args,
}

pub(crate) async fn run(global: &Global, args: ServeArgs, output: Output) -> Result<ExitCode> {
    let config = Config::load(&args.server)?;
    let keys = KeySources {
        explicit: global.api_key.clone().or_else(|| config.bootstrap_key.clone()),
        file: connection::first_key_path(&config),
    };
    let (bound_sender, bound_receiver) = oneshot::channel();
    let serving = server::serve(config, move |bound| drop(bound_sender.send(bound)));
    let started = async {
        // The sender is dropped without a value only if the server failed to start. Then `serving`
        // returns the error below, so this future must not win the race.
        let Ok(bound) = bound_receiver.await else { return std::future::pending().await };
        announce(&bound, &keys, output)?;
        match &args.demo {
            Some(directory) => Demo::new(&bound, keys.find(&bound)?, output)?.run(directory).await,
            None => Ok(()),
        }
    };
    tokio::pin!(serving);
    let demo_result: Result<()> = tokio::select! {
        served = &mut serving => { served?; return Ok(ExitCode::SUCCESS) }
        result = started => result,
    };
    let code = demo_result.map_or_else(|error| failure::report(&error), |()| ExitCode::SUCCESS);
    if args.once {
        terminate_self()?;
        serving.await?;
        return Ok(code);
    }
    serving.await?;
    Ok(ExitCode::SUCCESS)
}

/// Sends SIGTERM to this process, so that the service drains as it does for an operator.
pub(crate) fn terminate_self() -> Result<()> {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)?;
    Ok(())
}

/// Sources of the key for calls of this process to its own server.
struct KeySources {
    explicit: Option<String>,
    file: PathBuf,
}

impl KeySources {
    fn find(&self, bound: &Bound) -> Result<String> {
        let stored = || std::fs::read_to_string(&self.file).ok().map(|key| key.trim().to_owned());
        let key = self.explicit.clone().or_else(|| bound.first_key.clone()).or_else(stored);
        key.ok_or_else(|| {
            anyhow::anyhow!(
                "the demo needs a key: give one with -k, or start with an empty data directory"
            )
        })
    }
}

/// The URL of the server from this machine. A server that listens on all addresses is reached
/// through loopback.
pub(crate) fn local_url(bound: &Bound) -> String {
    let mut addr = bound.addr;
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => addr.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => addr.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("http://{addr}")
}

fn announce(bound: &Bound, keys: &KeySources, output: Output) -> Result<()> {
    let url = local_url(bound);
    if output.is_json() {
        output.line(&json!({"url": url, "first_key": bound.first_key}).to_string())?;
        return Ok(());
    }
    note(&format!(
        "skillbox {} serves on http://{} (press Ctrl-C to stop)",
        env!("CARGO_PKG_VERSION"),
        bound.addr
    ));
    if let Some(key) = &bound.first_key {
        note(&format!(
            "first key: {key}\n  printed only once; stored in {} for the command line on this machine",
            keys.file.display()
        ));
    }
    Ok(())
}
