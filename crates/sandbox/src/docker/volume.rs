//! The guest program on an engine: a volume that is filled once, and read only by the containers
//! that run it.

use std::time::Duration;

use language::Language;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use uuid::Uuid;

use super::body::{self, Setting};
use super::container::Container;
use super::engine::Engine;
use crate::guest::GuestHandle;
use crate::launcher::{LaunchError, Shape};
use crate::program::GUEST;

/// Some megabytes through a socket.
const FILLED_WITHIN: Duration = Duration::from_secs(120);

/// Enough for a shell and what it starts.
pub const SHAPE: Shape = Shape {
    language: Language::Bash,
    image: None,
    memory_bytes: 64 << 20,
    cpu_millis: 1000,
    pids: 64,
    disk_bytes: body::FILL_BYTES,
    disk_inodes: 64,
};

/// The volume of exactly this program, reached by this address: another version, or another build
/// of it, has another one, and so has another way to the same engine, because a proxy lets nobody
/// into a volume that it did not make.
pub struct Volume {
    pub name: String,
    digest: String,
}

impl Volume {
    pub fn of_this_program(host: &str) -> Volume {
        let digest = hexadecimal(GUEST);
        let (program, way) = (&digest[..12], &hexadecimal(host.as_bytes())[..8]);
        Volume {
            name: format!("skillbox-guest-{}-{program}-{way}", env!("CARGO_PKG_VERSION")),
            digest,
        }
    }

    /// Makes sure that the engine has the volume with the program in it, by a container that puts
    /// it there.
    pub async fn fill(&self, engine: &Engine, setting: &Setting<'_>) -> Result<(), LaunchError> {
        engine.make_volume(&self.name).await?;
        let name = format!("skillbox-fill-{}", Uuid::new_v4().simple());
        let arguments = [name.clone(), GUEST.len().to_string(), self.digest.clone()];
        let body = body::filler(&SHAPE, setting, arguments);
        let mut container = Container::create(engine, name, &body).await?;
        let filled = match timeout(FILLED_WITHIN, pour(&mut container)).await {
            Ok(filled) => filled,
            Err(_) => Err(failed("it took too long")),
        };
        container.wait_until_removed().await;
        filled
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn pour(container: &mut Container) -> Result<(), LaunchError> {
    let mut stream = container.start(false).await?;
    // When the program is there already it ends without reading, and an engine may then let us
    // write for ever.
    let pouring = async {
        let _ = stream.write_all(GUEST).await;
        let _ = stream.flush().await;
        std::future::pending().await
    };
    let code = tokio::select! {
        code = container.exit_code() => code?,
        code = pouring => code,
    };
    match code {
        0 => Ok(()),
        code => Err(failed(&format!(
            "its container ended with {code}; does the bash image have sh, head and sha256sum?"
        ))),
    }
}

fn failed(why: &str) -> LaunchError {
    LaunchError::Setup {
        step: "put the guest on the engine".to_owned(),
        source: std::io::Error::other(why.to_owned()),
    }
}
