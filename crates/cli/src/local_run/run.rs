//! Prepares and runs one skill from this machine's disk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use runner::{Request, RunPolicy, StandaloneResult, StandaloneRun};
use sandbox::{HostNetworkPermit, LaunchError, Sink, StreamMode, UnconfinedPermit};
use server::config::StandaloneConfig;
use skill::{NetworkPermissions, OpenDirectory, Package, Permissions};
use tokio_util::sync::CancellationToken;

use super::backend::{self, Backend, SandboxOptions};
use super::live_output::{LiveOutput, LogDestination};
use super::result::{FinishedRun, RunMetadata};
use super::skill_policy::SkillPolicy;
use super::user_policy::UserPolicy;
use super::{LocalArgs, LocalSandbox};
use crate::skill_reader;

/// What to run, and where its output goes.
pub(crate) struct LocalRunRequest<'a> {
    pub path: &'a Path,
    pub request: Request,
    pub args: &'a LocalArgs,
    pub destination: LogDestination,
    /// Whether to keep the streams for the result document.
    pub capture: bool,
    pub download: Option<PathBuf>,
}

/// A planned run with its backend. Nothing of the skill has been started.
struct PreparedRun {
    run: StandaloneRun,
    backend: Backend,
    runtime_path: Option<OsString>,
}

/// Reads, checks, plans and runs a skill. `before_start` is called when the run is fully decided and
/// nothing has been started, which is the moment for warnings.
pub(crate) async fn run(
    local: LocalRunRequest<'_>,
    metadata: &mut RunMetadata,
    before_start: impl FnOnce(&RunMetadata),
) -> Result<FinishedRun> {
    let streams = match local.destination {
        LogDestination::Stdout => StreamMode::Merged,
        LogDestination::Split | LogDestination::Stderr => StreamMode::Split,
    };
    let prepared = prepare(local.path, &local.request, local.args, streams, metadata).await?;
    before_start(metadata);
    let mut output = LiveOutput::new(local.destination, local.capture, local.download.clone());
    let stop = cancel_on_signal(output.stdout_closed.clone());
    let result = prepared.run(stop, &mut output).await?;
    let (captured, stdout_closed) = (output.take_captured(), output.stdout_closed.is_cancelled());
    Ok(FinishedRun { result, files: output.files, captured, stdout_closed })
}

/// Like [`run`], for a caller with its own sink and its own cancellation.
pub(crate) async fn run_into(
    path: &Path,
    request: &Request,
    args: &LocalArgs,
    streams: StreamMode,
    metadata: &mut RunMetadata,
    stop: CancellationToken,
    sink: &mut dyn Sink,
) -> Result<StandaloneResult> {
    prepare(path, request, args, streams, metadata).await?.run(stop, sink).await
}

async fn prepare(
    path: &Path,
    request: &Request,
    args: &LocalArgs,
    streams: StreamMode,
    metadata: &mut RunMetadata,
) -> Result<PreparedRun> {
    let config = StandaloneConfig::load()?;
    let user = UserPolicy::read(config.user_policy.as_deref())?;
    let (mut package, skill_policy, directory) = read_skill(path, metadata)?;
    metadata.trusted = args.trust_remote_code;
    let granted = user.allows_network(&package, directory.as_ref());
    // Without a sandbox nothing can close the network, so such a run always has it.
    metadata.network_allowed = args.allow_network || granted || metadata.trusted;
    skill_policy.check_network(metadata.network_allowed)?;
    drop_granted_permissions(&mut package.manifest.permissions, metadata);

    if metadata.trusted {
        refuse_contradicting_sandbox(&config, &user)?;
    }
    let kind = args.sandbox.or(config.in_docker.map(sandbox_kind)).or(user.sandbox);
    let plan = |kind| -> Result<StandaloneRun> {
        let policy = policy(&user, kind, &config)?;
        let run = StandaloneRun::plan(package.clone(), request.clone(), &policy)
            .map_err(|error| with_network_advice(error.into(), &package))?;
        Ok(run.with_streams(streams))
    };
    // Planned before any launcher is started, so that a refused request fails at once.
    let mut run = plan(kind.unwrap_or(LocalSandbox::Native))?;
    let require = [user.require.clone(), skill_policy.require.clone()].concat();
    let backend = match metadata.trusted {
        // Required controls cannot be enforced without a sandbox.
        true if !require.is_empty() => return Err(LaunchError::Missing(require).into()),
        true => Backend::Unconfined(UnconfinedPermit::for_directory(path)?),
        false => {
            let network = metadata.network_allowed.then(HostNetworkPermit::granted_by_user);
            backend::start(kind, &config, &SandboxOptions { network, require }).await?
        }
    };
    // The policy depends on the backend: only Docker checks the image of the skill. Native may
    // have been planned above and Docker chosen because native does not work here.
    if let Backend::Sandbox(chosen @ LocalSandbox::Docker, _) = backend {
        run = plan(chosen)?;
    }
    metadata.set_plan(&run, &backend);
    Ok(PreparedRun { run, backend, runtime_path: config.runtime_path })
}

impl PreparedRun {
    async fn run(self, stop: CancellationToken, sink: &mut dyn Sink) -> Result<StandaloneResult> {
        Ok(match self.backend {
            Backend::Sandbox(_, launcher) => self.run.run(&*launcher, stop, sink).await?,
            Backend::Unconfined(trust) => {
                self.run.run_unconfined(trust, self.runtime_path, stop, sink).await?
            }
        })
    }
}

impl RunMetadata {
    fn set_plan(&mut self, run: &StandaloneRun, backend: &Backend) {
        self.script = Some(run.script().to_owned());
        self.sandbox = Some(backend.name());
        self.timeout_ms = Some(run.timeout_ms());
        self.clamped = run.clamped().to_vec();
        // Nothing enforces a memory limit without a sandbox, so none is reported.
        self.memory_limit_bytes = match backend {
            Backend::Sandbox(..) => Some(run.shape().memory_bytes),
            Backend::Unconfined(_) => None,
        };
    }
}

/// Fails if a variable or the policy requests a sandbox although the flag turns it off. The safer
/// of two contradicting requests is never ignored silently.
fn refuse_contradicting_sandbox(config: &StandaloneConfig, user: &UserPolicy) -> Result<()> {
    let requested_by = match (config.in_docker, user.sandbox, &config.user_policy) {
        (Some(_), ..) => "SKILLBOX_SANDBOX".to_owned(),
        (None, Some(_), Some(policy)) => {
            format!("`sandbox` in the policy {}", policy.display())
        }
        (None, Some(_), None) | (None, None, _) => return Ok(()),
    };
    bail!(
        "--trust-remote-code runs without a sandbox, but {requested_by} requests one; remove one of the two"
    )
}

/// Removes permissions that the user has already granted from the manifest, so that the plan does
/// not refuse them. The environment variables that the skill accepts stay restricted.
fn drop_granted_permissions(permissions: &mut Permissions, metadata: &RunMetadata) {
    if metadata.trusted {
        *permissions = Permissions {
            env_vars: std::mem::take(&mut permissions.env_vars),
            ..Permissions::default()
        };
    }
    if metadata.network_allowed {
        permissions.network = NetworkPermissions::default();
    }
}

/// Adds the flag that opens the network to the error of a skill that needs one.
fn with_network_advice(error: anyhow::Error, package: &Package) -> anyhow::Error {
    match package.manifest.permissions.network.egress.as_deref() {
        None | Some([]) => error,
        Some(_) => {
            anyhow!("{error:#} Use --allow-network to open this machine's network for a run.")
        }
    }
}

/// Reads the skill and its own policy, and the open directory that it was read from.
fn read_skill(
    path: &Path,
    metadata: &mut RunMetadata,
) -> Result<(Package, SkillPolicy, Option<OpenDirectory>)> {
    let (package, directory) = skill_reader::read_with_directory(path)?;
    let mut package =
        package.with_context(|| format!("{} is not a skill that can be run", path.display()))?;
    metadata.skill = Some(package.manifest.name.clone());
    metadata.version = Some(package.manifest.version.clone());
    metadata.digest = Some(package.digest.clone());
    let skill_policy = SkillPolicy::from_package(&package)?;
    skill_policy.tighten(&mut package)?;
    Ok((package, skill_policy, directory))
}

/// The native sandbox has no images, so only Docker gets an allowlist for them.
fn policy(user: &UserPolicy, kind: LocalSandbox, config: &StandaloneConfig) -> Result<RunPolicy> {
    let image_allowlist = match kind {
        LocalSandbox::Docker => Some(config.image_allowlist.clone()),
        LocalSandbox::Native => None,
    };
    Ok(RunPolicy { image_allowlist, ..user.limits()? })
}

fn sandbox_kind(in_docker: bool) -> LocalSandbox {
    if in_docker { LocalSandbox::Docker } else { LocalSandbox::Native }
}

/// A token that is cancelled by Ctrl-C, by SIGTERM, and when the parent token is cancelled.
fn cancel_on_signal(parent: CancellationToken) -> CancellationToken {
    let token = parent.child_token();
    let cancel = token.clone();
    tokio::spawn(async move {
        let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        match terminate {
            Ok(mut terminate) => tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            },
            Err(_) => drop(tokio::signal::ctrl_c().await),
        }
        cancel.cancel();
    });
    token
}
