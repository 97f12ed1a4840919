//! The volume with the guest program on an engine. It is filled once, and containers of runs mount
//! it read-only.

use std::time::Duration;

use language::Language;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use uuid::Uuid;

use super::body::ContainerSettings;
use super::client::DockerClient;
use super::container::DockerContainer;
use super::filler;
use crate::container_backend::sha256_hex;
use crate::guest::GuestHandle;
use crate::guest_binary::GUEST_BINARY;
use crate::launcher::{LaunchError, Shape};

/// For a few megabytes over a socket, on a loaded machine.
const FILL_TIMEOUT: Duration = Duration::from_secs(120);

/// Enough for a shell and the programs it starts.
pub(super) const FILLER_SHAPE: Shape = Shape {
    language: Language::Bash,
    image: None,
    memory_bytes: 64 << 20,
    cpu_millis: 1000,
    pids: 64,
    disk_bytes: filler::MAX_FILL_BYTES,
    disk_inodes: 64,
};

/// The volume for exactly this guest program and this engine address. Another version or build has
/// another volume. So has another address of the same engine, because a proxy gives access only to
/// volumes that were created through it.
pub(super) struct GuestVolume {
    pub name: String,
    digest: String,
}

impl GuestVolume {
    pub(super) fn for_host(host: &str) -> GuestVolume {
        let digest = sha256_hex(GUEST_BINARY);
        let (program, address) = (&digest[..12], &sha256_hex(host.as_bytes())[..8]);
        GuestVolume {
            name: format!("skillbox-guest-{}-{program}-{address}", env!("CARGO_PKG_VERSION")),
            digest,
        }
    }

    /// Makes sure that the volume exists on the engine and has the program, which a container
    /// writes to it.
    pub(super) async fn fill(
        &self,
        client: &DockerClient,
        settings: &ContainerSettings<'_>,
    ) -> Result<(), LaunchError> {
        client.create_volume(&self.name).await?;
        let name = format!("skillbox-fill-{}", Uuid::new_v4().simple());
        let arguments = [name.clone(), GUEST_BINARY.len().to_string(), self.digest.clone()];
        let body = filler::filler(&FILLER_SHAPE, settings, arguments);
        let mut container = DockerContainer::create(client, name, &body).await?;
        let filled = match timeout(FILL_TIMEOUT, send_program(&mut container)).await {
            Ok(filled) => filled,
            Err(_) => Err(fill_error("it took too long")),
        };
        container.wait_until_removed().await;
        filled
    }
}

async fn send_program(container: &mut DockerContainer) -> Result<(), LaunchError> {
    let mut stream = container.start(false).await?;
    // If the volume has the program already, the filler exits without reading its input, and some
    // engines then block our write forever. So the exit of the container ends the write, and the
    // write never ends the wait for the exit.
    let writing = async {
        let _ = stream.write_all(GUEST_BINARY).await;
        let _ = stream.flush().await;
        std::future::pending().await
    };
    let code = tokio::select! {
        code = container.exit_code() => code?,
        code = writing => code,
    };
    match code {
        0 => Ok(()),
        code => Err(fill_error(&format!(
            "its container exited with {code}; does the bash image have sh, head and sha256sum?"
        ))),
    }
}

fn fill_error(why: &str) -> LaunchError {
    LaunchError::Setup {
        step: "put the guest on the engine".to_owned(),
        source: std::io::Error::other(why.to_owned()),
    }
}
