//! The parts that the Docker and the Kubernetes backend share: the user and paths in a container,
//! its labels and lease, the guest's own confinement, and the check of a launched guest.

use std::fmt::{self, Write};
use std::future::Future;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use guest::frame::{self, MAX_TO_GUEST};
use guest::jail::ScratchLimits;
use guest::protocol::{Confinement, ToGuest};
use language::Language;
use sha2::{Digest, Sha256};

use crate::guest::Guest;
use crate::isolation::{Control, Isolation};
use crate::launcher::{LaunchError, Shape};
use crate::{policy, seccomp};

/// The user and group `nobody`, which owns no file in any image.
pub(crate) const NOBODY_UID: u32 = 65534;

/// Mount point of the guest's volume.
pub(crate) const GUEST_DIRECTORY: &str = "/skillbox";

/// The guest program in that volume.
pub(crate) const GUEST_PROGRAM: &str = "/skillbox/skillbox-guest";

pub(crate) const OWNER_LABEL: &str = "skillbox.owner";
/// Unix time in seconds after which the container cannot be in use any more.
pub(crate) const LEASE_LABEL: &str = "skillbox.lease";
pub(crate) const VERSION_LABEL: &str = "skillbox.version";

/// The smallest sandbox in which the guest can measure its isolation.
pub(crate) const PROBE_SHAPE: Shape = Shape {
    language: Language::Bash,
    image: None,
    memory_bytes: 64 << 20,
    cpu_millis: 1000,
    pids: 64,
    disk_bytes: 1 << 20,
    disk_inodes: 64,
};

/// Waits for a launched guest and checks that all required controls are in force in it. A guest
/// that lacks one is removed.
pub(crate) async fn launch_checked(
    launch: impl Future<Output = Result<Guest, LaunchError>>,
    required: &[Control],
) -> Result<Guest, LaunchError> {
    launch.await?.require_controls(required).await
}

/// Launches a guest only to measure its isolation, and removes it.
pub(crate) async fn probe_isolation(
    launch: impl Future<Output = Result<Guest, LaunchError>>,
    required: &[Control],
) -> Result<Isolation, LaunchError> {
    let guest = launch_checked(launch, required).await?;
    let isolation = guest.isolation().clone();
    guest.discard().await;
    Ok(isolation)
}

/// The current time, as lease labels have it.
pub(crate) fn unix_time_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Whether the lease in a label has expired. A missing or unreadable lease counts as expired:
/// otherwise no sweep would ever remove such a container.
pub(crate) fn is_lease_expired(label: Option<&String>) -> bool {
    label
        .and_then(|until| until.parse::<u64>().ok())
        .is_none_or(|until| until < unix_time_seconds())
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error with all of its sources, for a report.
pub(crate) fn error_with_sources(error: &LaunchError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if !text.contains(&inner.to_string()) {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {inner}");
        }
        source = inner.source();
    }
    text
}

/// Writes one line for each control to a doctor's report.
pub(crate) fn write_controls(f: &mut fmt::Formatter<'_>, isolation: &Isolation) -> fmt::Result {
    for control in Control::ALL {
        match isolation.controls.get(&control) {
            Some(how) => writeln!(f, "  ok   {control:<20} {how}")?,
            None => writeln!(f, "  --   {control:<20} not there")?,
        }
    }
    Ok(())
}

/// The first frame to a guest in a container: the restrictions that the guest applies to itself, in
/// addition to those of the container.
pub(crate) fn confinement(shape: &Shape, filter: Vec<u8>) -> Confinement {
    Confinement {
        rlimits: policy::rlimits(shape),
        landlock: policy::landlock(),
        seccomp: filter,
        notify_filter: seccomp::notify_filter(),
        no_lock_filter: seccomp::no_lock_filter(),
        private_inodes: true,
        scratch: ScratchLimits { bytes: shape.disk_bytes, inodes: shape.disk_inodes },
        processes: shape.pids,
    }
}

/// Encodes a confinement as a frame.
pub(crate) fn encode_confinement(confinement: Confinement) -> Result<Vec<u8>, LaunchError> {
    let mut bytes = Vec::new();
    frame::encode(&ToGuest::Confine(confinement), MAX_TO_GUEST, &mut bytes).map_err(|error| {
        LaunchError::Setup { step: "encode".to_owned(), source: io::Error::other(error) }
    })?;
    Ok(bytes)
}
