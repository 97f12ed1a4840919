//! `skillbox doctor`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use server::Service;
use server::config::Config;

use crate::output::Output;

#[derive(Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    server: server::config::Args,
}

/// Checks the machine and every configured service, as `serve` would with the same flags and
/// variables. Exit code 1 means that a server would not start here or could not run skills.
pub(crate) async fn run(args: &DoctorArgs, output: Output) -> Result<ExitCode> {
    let config = Config::load(&args.server)?;
    let (text, mut document, healthy) = if let Some(docker) = server::docker_config(&config) {
        let report = sandbox::docker_doctor(docker).await;
        (report.to_string(), serde_json::to_value(&report)?, report.is_healthy())
    } else if let Some(kubernetes) = server::kubernetes_config(&config) {
        let report = sandbox::kubernetes_doctor(kubernetes).await;
        (report.to_string(), serde_json::to_value(&report)?, report.is_healthy())
    } else {
        let report = sandbox::native_doctor(config.runtime_path.clone()).await;
        (report.to_string(), serde_json::to_value(&report)?, report.is_healthy())
    };
    let services = server::services(&config).await;
    if output.is_json() {
        document["services"] = json!(services);
        output.line(&document.to_string())?;
    } else {
        output.line(
            format!("{}{text}", services.iter().map(format_service).collect::<String>()).trim_end(),
        )?;
    }
    let healthy = healthy && services.iter().all(|service| service.ok);
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn format_service(service: &Service) -> String {
    let mark = if service.ok { "" } else { "problem: " };
    let warning =
        service.warning.as_ref().map(|warning| format!("warning: {warning}\n")).unwrap_or_default();
    format!("{:<13} {mark}{}\n{warning}", service.name, service.detail)
}
