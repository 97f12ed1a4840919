//! Receives the job and writes its files to the scratch file system. No code of a tenant has run
//! yet.

use std::os::fd::OwnedFd;

use guest::names::is_plain_component;
use guest::protocol::{RunRequest, ToGuest, paths};
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom, memfd_create, mkdir, open, seek, symlink};
use rustix::io::{Errno, retry_on_intr, write};

use super::channel::Channel;
use super::failure::SetupFailure;
use super::process::ScriptCommand;

/// The job as requested by the host.
pub(super) struct ReceivedJob {
    pub command: ScriptCommand,
    pub stdin: Option<OwnedFd>,
    pub limits: ReturnLimits,
}

/// The limits on the data sent back.
pub(super) struct ReturnLimits {
    pub log_bytes: u64,
    pub output_bytes: u64,
    pub artifact_bytes: u64,
    pub artifact_files: u32,
}

const DIRECTORY: Mode = Mode::from_raw_mode(0o755);
const FILE: Mode = Mode::from_raw_mode(0o644);

/// The directories below which files and links can be created.
const WRITABLE_ROOTS: [&str; 3] = [paths::SANDBOX, paths::SKILLS, paths::WORKSPACE];

/// Creates the directories that every script can rely on.
pub(super) fn make_directories() -> Result<(), SetupFailure> {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    for directory in [paths::SCRIPTS, paths::INPUT_DIR, paths::OUT_DIR, paths::FILES_DIR] {
        make_directory(directory).map_err(SetupFailure::at("create the directories"))?;
    }
    Ok(())
}

/// Writes the files that the host sends, until the run request arrives.
pub(super) fn receive_job(host: &mut Channel) -> Result<ReceivedJob, SetupFailure> {
    let mut stdin = None;
    loop {
        match host.receive() {
            ToGuest::File { path, size, executable } => {
                let file = create_file(path, executable)?;
                write_chunks(host, &file, size, "write a file")?;
            }
            ToGuest::Link { path, target } => create_link(path, target)?,
            ToGuest::Stdin { size } => stdin = Some(receive_stdin(host, size)?),
            ToGuest::Run(run) => return received_job(&run, stdin),
            ToGuest::Chunk(_) | ToGuest::Stop | ToGuest::Confine(_) => {
                return Err(unexpected_message());
            }
        }
    }
}

fn received_job(run: &RunRequest<'_>, stdin: Option<OwnedFd>) -> Result<ReceivedJob, SetupFailure> {
    let limits = ReturnLimits {
        log_bytes: run.log_bytes,
        output_bytes: run.output_bytes,
        artifact_bytes: run.artifact_bytes,
        artifact_files: run.artifact_files,
    };
    let command = ScriptCommand::new(run).map_err(SetupFailure::at("read the run request"))?;
    Ok(ReceivedJob { command, stdin, limits })
}

fn create_file(path: &str, executable: bool) -> Result<OwnedFd, SetupFailure> {
    check_path(path)?;
    let mode = if executable { DIRECTORY } else { FILE };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    with_parents(path, || open(path, flags, mode)).map_err(SetupFailure::at("create a file"))
}

fn create_link(path: &str, target: &str) -> Result<(), SetupFailure> {
    check_path(path)?;
    with_parents(path, || symlink(target, path)).map_err(SetupFailure::at("create a link"))
}

/// Standard input is kept in a memfd, which counts against no file system limit and has no path.
fn receive_stdin(host: &mut Channel, size: u64) -> Result<OwnedFd, SetupFailure> {
    let memory = memfd_create("stdin", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
        // Kernels before 6.3 do not support the flag.
        .or_else(|_| memfd_create("stdin", MemfdFlags::CLOEXEC))
        .map_err(SetupFailure::at("create standard input"))?;
    write_chunks(host, &memory, size, "write standard input")?;
    seek(&memory, SeekFrom::Start(0)).map_err(SetupFailure::at("rewind standard input"))?;
    Ok(memory)
}

/// Writes chunks of `size` bytes in total.
fn write_chunks(
    host: &mut Channel,
    file: &OwnedFd,
    size: u64,
    step: &'static str,
) -> Result<(), SetupFailure> {
    let mut remaining = size;
    while remaining > 0 {
        let ToGuest::Chunk(mut bytes) = host.receive() else { return Err(unexpected_message()) };
        remaining = remaining.checked_sub(bytes.len() as u64).ok_or_else(unexpected_message)?;
        while !bytes.is_empty() {
            let written = retry_on_intr(|| write(file, bytes)).map_err(SetupFailure::at(step))?;
            bytes = &bytes[written..];
        }
    }
    Ok(())
}

/// Accepts only plain path components below the writable roots. The host checks the job as well;
/// this keeps a wrong path from escaping through `..` or a link.
fn check_path(path: &str) -> Result<(), SetupFailure> {
    let inside = WRITABLE_ROOTS.iter().any(|root| {
        let below = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
        below.is_some_and(|below| below.split('/').all(is_plain_component))
    });
    if inside { Ok(()) } else { Err(SetupFailure { step: "check a path", errno: Errno::INVAL }) }
}

/// Retries once after creating the missing parent directories of `path`.
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

fn unexpected_message() -> SetupFailure {
    SetupFailure { step: "follow the protocol", errno: Errno::PROTO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_paths_below_the_writable_roots() {
        for path in
            ["/sandbox/scripts/main.py", "/skills/name/a/b", "/workspace/x", "/sandbox/input/ü.txt"]
        {
            assert!(check_path(path).is_ok(), "{path}");
        }
        for path in [
            "/sandbox", "/sandbox/", "/sandboxes/x", "/etc/x", "/tmp/x", "sandbox/x",
            "/sandbox/../x", "/sandbox//x", "/sandbox/a\n", "",
        ] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }
}
