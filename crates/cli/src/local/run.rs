//! One run of a skill that lies on this machine, from its directory to its end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use runner::{Ended, Local, Policy, Request};
use sandbox::{HostNetworkPermit, LaunchError, Outcome, Sink, StreamMode, UnconfinedPermit};
use server::config::Local as Surroundings;
use skill::{Network, Package, Permissions, Tree};
use tokio_util::sync::CancellationToken;

use super::ground::{self, Ground, Wishes};
use super::live::{Kept, Live, Saved, Show};
use super::policy::{SkillPolicy, UserPolicy};
use super::{Kind, LocalArgs};
use crate::commands::skill::local as skills;

/// What is to run, and how it is shown.
pub struct Order<'a> {
    pub path: &'a Path,
    pub request: Request,
    pub args: &'a LocalArgs,
    pub show: Show,
    /// Keep the streams for a document at the end.
    pub keep: bool,
    pub download: Option<PathBuf>,
}

/// What is known of a run, filled in as it becomes known, so that a record can be written of one
/// that never began.
#[derive(Debug, Default)]
pub struct Facts {
    pub skill: Option<String>,
    pub version: Option<String>,
    pub digest: Option<String>,
    pub script: Option<String>,
    pub network_allowed: bool,
    pub trusted: bool,
    pub sandbox: Option<&'static str>,
    pub memory_limit_bytes: Option<u64>,
    pub timeout_ms: Option<u64>,
    pub clamped: Vec<String>,
}

/// A run that came to its end.
pub struct Finished {
    pub ended: Ended,
    pub files: Vec<Saved>,
    pub kept: Option<Kept>,
    /// Nobody reads our standard output any more.
    pub unread: bool,
}

impl Finished {
    /// The script's own code, so that shells can act on it; what we lost is a failed call.
    pub fn exit_code(&self) -> u8 {
        let ended = &self.ended;
        let own =
            ended.exit_code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
        match ended.outcome {
            Outcome::Exited if own.is_none() && ended.error.is_none() => 0,
            Outcome::TimedOut => 124,
            Outcome::Cancelled => 130,
            Outcome::Refused | Outcome::Lost => 2,
            _ => own.unwrap_or(1),
        }
    }
}

/// A run that is decided, and on what; nothing has happened yet.
struct Ready {
    local: Local,
    ground: Ground,
    runtime_path: Option<OsString>,
}

/// Reads, allows, plans and runs. `begin` is called when all is decided and nothing has happened
/// yet.
pub async fn run(
    order: Order<'_>,
    facts: &mut Facts,
    begin: impl FnOnce(&Facts),
) -> Result<Finished> {
    let streams = match order.show {
        Show::AsOutput => StreamMode::Merged,
        Show::Apart | Show::AsWords => StreamMode::Split,
    };
    let ready = prepare(order.path, &order.request, order.args, streams, facts).await?;
    begin(facts);
    let mut live = Live::new(order.show, order.keep, order.download.clone());
    let stop = interrupted(live.unread.clone());
    let ended = ready.run(stop, &mut live).await?;
    let (kept, unread) = (live.kept(), live.unread.is_cancelled());
    Ok(Finished { ended, files: live.files, kept, unread })
}

/// The same for a caller with a sink of its own and its own way to stop.
pub async fn run_into(
    path: &Path,
    request: &Request,
    args: &LocalArgs,
    streams: StreamMode,
    facts: &mut Facts,
    stop: CancellationToken,
    sink: &mut dyn Sink,
) -> Result<Ended> {
    prepare(path, request, args, streams, facts).await?.run(stop, sink).await
}

async fn prepare(
    path: &Path,
    request: &Request,
    args: &LocalArgs,
    streams: StreamMode,
    facts: &mut Facts,
) -> Result<Ready> {
    let surroundings = Surroundings::load()?;
    let user = UserPolicy::read(surroundings.user_policy.as_deref())?;
    let (mut package, own, directory) = read(path, facts)?;
    facts.trusted = args.trust_remote_code;
    let allowed_by_policy = user.allows_network(&package, directory.as_ref());
    facts.network_allowed = args.allow_network || allowed_by_policy || facts.trusted;
    own.check_network(facts.network_allowed)?;
    grant(&mut package.manifest.permissions, facts);

    if facts.trusted {
        refuse_sandbox(&surroundings, &user)?;
    }
    let kind = args.sandbox.or(surroundings.in_docker.map(kind)).or(user.sandbox);
    let planned = |kind| -> Result<Local> {
        let policy = policy(&user, kind, &surroundings)?;
        let planned = Local::plan(package.clone(), request.clone(), &policy)
            .map_err(|error| hint(error.into(), &package))?;
        Ok(planned.with_streams(streams))
    };
    // Before anything is started, so that what is refused costs nothing.
    let mut local = planned(kind.unwrap_or(Kind::Native))?;
    let require = [user.require.clone(), own.require.clone()].concat();
    let ground = match facts.trusted {
        true if !require.is_empty() => return Err(LaunchError::Missing(require).into()),
        true => Ground::Unconfined(UnconfinedPermit::for_directory(path)?),
        false => {
            let network = facts.network_allowed.then(HostNetworkPermit::granted_by_user);
            ground::sandbox(kind, &surroundings, &Wishes { network, require }).await?
        }
    };
    if let Ground::Sandbox(used @ Kind::Docker, _) = ground {
        local = planned(used)?;
    }
    note_plan(facts, &local, &ground);
    Ok(Ready { local, ground, runtime_path: surroundings.runtime_path })
}

impl Ready {
    async fn run(self, stop: CancellationToken, sink: &mut dyn Sink) -> Result<Ended> {
        Ok(match self.ground {
            Ground::Sandbox(_, launcher) => self.local.run(&*launcher, stop, sink).await?,
            Ground::Unconfined(trust) => {
                self.local.run_unconfined(trust, self.runtime_path, stop, sink).await?
            }
        })
    }
}

/// In the words of an execution on a server.
pub fn status(ended: &Ended) -> &'static str {
    match ended.outcome {
        Outcome::Exited if ended.exit_code == Some(0) && ended.error.is_none() => "success",
        Outcome::TimedOut => "timeout",
        Outcome::Cancelled => "cancelled",
        _ => "failed",
    }
}

/// Who asked for a sandbox somewhere does not get a run without one, even for asking that too.
fn refuse_sandbox(surroundings: &Surroundings, user: &UserPolicy) -> Result<()> {
    let asked = match (surroundings.in_docker, user.sandbox, &surroundings.user_policy) {
        (Some(_), ..) => "SKILLBOX_SANDBOX asks".to_owned(),
        (None, Some(_), Some(policy)) => {
            format!("`sandbox` in the policy {} asks", policy.display())
        }
        _ => return Ok(()),
    };
    bail!(
        "--trust-remote-code runs without a sandbox, and {asked} for one; leave out one of the two"
    )
}

/// What the user opened is no longer the skill's to ask for; which variables it takes stays its own
/// affair.
fn grant(permissions: &mut Permissions, facts: &Facts) {
    if facts.trusted {
        *permissions = Permissions {
            env_vars: std::mem::take(&mut permissions.env_vars),
            ..Permissions::default()
        };
    }
    if facts.network_allowed {
        permissions.network = Network::default();
    }
}

/// What the user could do about a refusal.
fn hint(error: anyhow::Error, package: &Package) -> anyhow::Error {
    match package.manifest.permissions.network.egress.as_deref() {
        None | Some([]) => error,
        Some(_) => {
            anyhow!("{error:#} --allow-network opens the network of this machine for a run.")
        }
    }
}

/// The skill, with what it forbids itself, and the open directory that it was read from.
fn read(path: &Path, facts: &mut Facts) -> Result<(Package, SkillPolicy, Option<Tree>)> {
    let (package, directory) = skills::read_with_directory(path)?;
    let mut package =
        package.with_context(|| format!("{} is not a skill that can be run", path.display()))?;
    facts.skill = Some(package.manifest.name.clone());
    facts.version = Some(package.manifest.version.clone());
    facts.digest = Some(package.digest.clone());
    let own = SkillPolicy::of(&package)?;
    own.tighten(&mut package)?;
    Ok((package, own, directory))
}

/// Images mean something on an engine only.
fn policy(user: &UserPolicy, kind: Kind, surroundings: &Surroundings) -> Result<Policy> {
    let image_allowlist = (kind == Kind::Docker).then(|| surroundings.image_allowlist.clone());
    Ok(Policy { image_allowlist, ..user.limits()? })
}

fn kind(in_docker: bool) -> Kind {
    if in_docker { Kind::Docker } else { Kind::Native }
}

fn note_plan(facts: &mut Facts, local: &Local, ground: &Ground) {
    facts.script = Some(local.script().to_owned());
    facts.sandbox = Some(ground.name());
    facts.timeout_ms = Some(local.timeout_ms());
    facts.clamped = local.clamped().to_vec();
    // Without a sandbox nothing holds it.
    facts.memory_limit_bytes =
        matches!(ground, Ground::Sandbox(..)).then_some(local.shape().memory_bytes);
}

/// Cancelled by Ctrl-C, by SIGTERM, and when nobody reads what the script says.
fn interrupted(stop: CancellationToken) -> CancellationToken {
    let cancelled = stop.child_token();
    let token = cancelled.clone();
    tokio::spawn(async move {
        let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        match terminate {
            Ok(mut terminate) => tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            },
            Err(_) => drop(tokio::signal::ctrl_c().await),
        }
        token.cancel();
    });
    cancelled
}
