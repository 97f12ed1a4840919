//! The container that fills the guest volume.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HostConfig};

use super::body::{ContainerSettings, container, hardened};
use crate::launcher::Shape;

/// The create body of the container that writes its standard input to the volume, unless the volume
/// has the program already.
///
/// It runs as root, because a new volume belongs to root, but without any capability. It never
/// handles data of a tenant.
pub(super) fn filler(
    shape: &Shape,
    settings: &ContainerSettings<'_>,
    arguments: [String; 3],
) -> ContainerCreateBody {
    let host = HostConfig { tmpfs: Some(HashMap::new()), ..hardened(shape, settings, false) };
    let entrypoint = FILLER_ENTRYPOINT.map(str::to_owned).into_iter().chain(arguments);
    ContainerCreateBody {
        user: Some("0:0".to_owned()),
        entrypoint: Some(entrypoint.collect()),
        attach_stdout: Some(false),
        ..container(settings, host)
    }
}

/// The start of a filler's entrypoint, before its arguments. A proxy allows root for no other
/// program.
pub const FILLER_ENTRYPOINT: [&str; 4] = ["/bin/sh", "-c", FILL_SCRIPT, "fill"];

/// The most that a filler may write: several times the size of the guest.
pub const MAX_FILL_BYTES: u64 = 64 << 20;

/// The arguments are a temporary name, the size and the SHA-256. The program gets its final name by
/// a rename, so that a container never starts an incomplete program. A killed filler leaves its
/// temporary file. The next one removes files that are too old to belong to a concurrent filler.
const FILL_SCRIPT: &str = r#"
sum() { set -- $(sha256sum "$1" 2>/dev/null); echo "$1"; }
program=/skillbox/skillbox-guest
find /skillbox -name 'skillbox-fill-*' -mmin +9 -exec rm -f {} + 2>/dev/null
[ "$(sum $program)" = "$3" ] && exit 0
trap 'rm -f "/skillbox/$1"' EXIT
head -c "$2" > "/skillbox/$1" && [ "$(sum "/skillbox/$1")" = "$3" ] && chmod 0555 "/skillbox/$1" &&
    mv -f "/skillbox/$1" $program
"#;
