//! Receives the job and places it in the scratch file system. Nothing of a tenant has run yet.

use std::os::fd::OwnedFd;

use guest::names::plain_component;
use guest::protocol::{RunRequest, ToGuest, paths};
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom, memfd_create, mkdir, open, seek, symlink};
use rustix::io::{Errno, retry_on_intr, write};

use super::channel::Channel;
use super::failure::Failure;
use super::process::Program;

/// Everything the host asked for.
pub struct Order {
    pub program: Program,
    pub stdin: Option<OwnedFd>,
    pub bounds: Bounds,
}

/// How much may be sent back.
pub struct Bounds {
    pub log_bytes: u64,
    pub output_bytes: u64,
    pub artifact_bytes: u64,
    pub artifact_files: u32,
}

const DIRECTORY: Mode = Mode::from_raw_mode(0o755);
const FILE: Mode = Mode::from_raw_mode(0o644);

/// The places that files and links may be put below.
const PLACES: [&str; 3] = [paths::SANDBOX, paths::SKILLS, paths::WORKSPACE];

/// The directories that every script may rely on.
pub fn make_directories() -> Result<(), Failure> {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    for directory in [paths::SCRIPTS, paths::INPUT_DIR, paths::OUT_DIR, paths::FILES_DIR] {
        make_directory(directory).map_err(Failure::at("make the directories of the contract"))?;
    }
    Ok(())
}

/// Places what comes until the order to run comes.
pub fn receive(host: &mut Channel) -> Result<Order, Failure> {
    let mut stdin = None;
    loop {
        match host.receive() {
            ToGuest::File { path, size, executable } => {
                let file = create(path, executable)?;
                fill(host, &file, size, "write a file")?;
            }
            ToGuest::Link { path, target } => link(path, target)?,
            ToGuest::Stdin { size } => stdin = Some(receive_stdin(host, size)?),
            ToGuest::Run(run) => return order(&run, stdin),
            ToGuest::Chunk(_) | ToGuest::Stop | ToGuest::Confine(_) => return Err(unexpected()),
        }
    }
}

fn order(run: &RunRequest<'_>, stdin: Option<OwnedFd>) -> Result<Order, Failure> {
    let bounds = Bounds {
        log_bytes: run.log_bytes,
        output_bytes: run.output_bytes,
        artifact_bytes: run.artifact_bytes,
        artifact_files: run.artifact_files,
    };
    let program = Program::new(run).map_err(Failure::at("read the order to run"))?;
    Ok(Order { program, stdin, bounds })
}

fn create(path: &str, executable: bool) -> Result<OwnedFd, Failure> {
    check(path)?;
    let mode = if executable { DIRECTORY } else { FILE };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    with_parents(path, || open(path, flags, mode)).map_err(Failure::at("create a file"))
}

fn link(path: &str, target: &str) -> Result<(), Failure> {
    check(path)?;
    with_parents(path, || symlink(target, path)).map_err(Failure::at("make a link"))
}

/// Standard input is kept in memory of its own, where no file system limit and no name can touch
/// it.
fn receive_stdin(host: &mut Channel, size: u64) -> Result<OwnedFd, Failure> {
    let memory = memfd_create("stdin", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
        // Kernels before 6.3 do not know the flag.
        .or_else(|_| memfd_create("stdin", MemfdFlags::CLOEXEC))
        .map_err(Failure::at("make room for standard input"))?;
    fill(host, &memory, size, "write standard input")?;
    seek(&memory, SeekFrom::Start(0)).map_err(Failure::at("rewind standard input"))?;
    Ok(memory)
}

/// Writes chunks of `size` bytes in all.
fn fill(host: &mut Channel, file: &OwnedFd, size: u64, step: &'static str) -> Result<(), Failure> {
    let mut left = size;
    while left > 0 {
        let ToGuest::Chunk(mut bytes) = host.receive() else { return Err(unexpected()) };
        left = left.checked_sub(bytes.len() as u64).ok_or_else(unexpected)?;
        while !bytes.is_empty() {
            let written = retry_on_intr(|| write(file, bytes)).map_err(Failure::at(step))?;
            bytes = &bytes[written..];
        }
    }
    Ok(())
}

/// Only names that mean themselves, only below the places made for them.
fn check(path: &str) -> Result<(), Failure> {
    let inside = PLACES.iter().any(|place| {
        let below = path.strip_prefix(place).and_then(|rest| rest.strip_prefix('/'));
        below.is_some_and(|below| below.split('/').all(plain_component))
    });
    if inside { Ok(()) } else { Err(Failure { step: "check a path", errno: Errno::INVAL }) }
}

/// Tries once more after making the missing directories above `path`.
fn with_parents<T>(path: &str, action: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match action() {
        Err(Errno::NOENT) => {
            for (end, _) in path.match_indices('/').skip(2) {
                make_directory(&path[..end])?;
            }
            action()
        }
        done => done,
    }
}

fn make_directory(path: &str) -> Result<(), Errno> {
    match mkdir(path, DIRECTORY) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn unexpected() -> Failure {
    Failure { step: "follow the protocol", errno: Errno::PROTO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_only_below_their_places() {
        for path in
            ["/sandbox/scripts/main.py", "/skills/name/a/b", "/workspace/x", "/sandbox/input/ü.txt"]
        {
            assert!(check(path).is_ok(), "{path}");
        }
        for path in [
            "/sandbox", "/sandbox/", "/sandboxes/x", "/etc/x", "/tmp/x", "sandbox/x",
            "/sandbox/../x", "/sandbox//x", "/sandbox/a\n", "",
        ] {
            assert!(check(path).is_err(), "{path}");
        }
    }
}
