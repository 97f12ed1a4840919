//! The guest program, carried inside this library and run from open_sealed memory.

use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// The static program that `build.rs` made.
pub static GUEST_BINARY: &[u8] = include_bytes!(env!("SKILLBOX_GUEST"));

/// A file in memory with the program, which nobody can change any more, not even a sandbox that
/// reaches it.
pub fn open_sealed() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("skillbox-guest", flags | MemfdFlags::EXEC)
        // Kernels before 6.3 do not know the flag; there every memfd can be executed.
        .or_else(|_| rustix::fs::memfd_create("skillbox-guest", flags))?;
    let mut file = File::from(memory);
    file.write_all(GUEST_BINARY)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}
