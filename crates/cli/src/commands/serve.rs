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
pub struct ServeArgs {
    /// Once ready, publish every skill in this directory and run one of them.
    #[arg(long, value_name = "DIR")]
    demo: Option<PathBuf>,
    /// Stop after the demo instead of serving on.
    #[arg(long, requires = "demo")]
    once: bool,
    #[command(flatten)]
    server: server::config::Args,
}

pub async fn run(global: &Global, args: ServeArgs, output: Output) -> Result<ExitCode> {
    let config = Config::load(&args.server)?;
    let keys = Keys {
        given: global.api_key.clone().or_else(|| config.bootstrap_key.clone()),
        file: connection::first_key_path(&config),
    };
    let (tell, told) = oneshot::channel();
    let serving = server::serve(config, move |bound| drop(tell.send(bound)));
    let started = async {
        // The sender is dropped without a word only when the server failed to start, and then that
        // is what ends us.
        let Ok(bound) = told.await else { return std::future::pending().await };
        announce(&bound, &keys, output)?;
        match &args.demo {
            Some(directory) => Demo::new(&bound, keys.find(&bound)?, output)?.run(directory).await,
            None => Ok(()),
        }
    };
    tokio::pin!(serving);
    let shown: Result<()> = tokio::select! {
        ended = &mut serving => { ended?; return Ok(ExitCode::SUCCESS) }
        shown = started => shown,
    };
    let code = shown.map_or_else(|error| failure::report(&error), |()| ExitCode::SUCCESS);
    if args.once {
        stop()?;
        serving.await?;
        return Ok(code);
    }
    serving.await?;
    Ok(ExitCode::SUCCESS)
}

/// Ends the service the way an operator would, so that it drains.
pub fn stop() -> Result<()> {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)?;
    Ok(())
}

/// Where the key of this machine's own calls comes from.
struct Keys {
    given: Option<String>,
    file: PathBuf,
}

impl Keys {
    fn find(&self, bound: &Bound) -> Result<String> {
        let kept = || std::fs::read_to_string(&self.file).ok().map(|key| key.trim().to_owned());
        let key = self.given.clone().or_else(|| bound.first_key.clone()).or_else(kept);
        key.ok_or_else(|| {
            anyhow::anyhow!(
                "no key for the demo: give one with -k, or start with an empty data directory"
            )
        })
    }
}

/// The address to reach the server at from this machine: one that listens everywhere also listens
/// on loopback.
pub fn local_url(bound: &Bound) -> String {
    let mut addr = bound.addr;
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => addr.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => addr.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("http://{addr}")
}

fn announce(bound: &Bound, keys: &Keys, output: Output) -> Result<()> {
    let url = local_url(bound);
    if output.is_json() {
        output.line(&json!({"url": url, "first_key": bound.first_key}).to_string())?;
        return Ok(());
    }
    note(&format!(
        "skillbox {} serves on http://{} (stop it with Ctrl-C)",
        env!("CARGO_PKG_VERSION"),
        bound.addr
    ));
    if let Some(key) = &bound.first_key {
        note(&format!(
            "first key: {key}\n  shown this once; kept in {} for the command line on this machine",
            keys.file.display()
        ));
    }
    Ok(())
}
