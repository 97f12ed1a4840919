//! The guest program, embedded in this library and executed from a sealed memfd.

use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// The static program, built by `build.rs`.
pub(crate) static GUEST_BINARY: &[u8] = include_bytes!(env!("SKILLBOX_GUEST"));

/// A memfd with the program. It is sealed, so that no process can modify it, not even one that
/// escaped from a sandbox.
pub(crate) fn open_sealed() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("skillbox-guest", flags | MemfdFlags::EXEC)
        // Kernels before 6.3 do not support the flag; there every memfd is executable.
        .or_else(|_| rustix::fs::memfd_create("skillbox-guest", flags))?;
    let mut file = File::from(memory);
    file.write_all(GUEST_BINARY)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}
