//! The embedded state's directory: private, locked by one server at a time, with the secret and the
//! first key in it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::secrets::Secret;

/// How often, and with which pauses, the lock is tried.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A data directory that this process holds. The lock ends with the process, however it ends.
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("another server uses {0}. Stop it, or set SKILLBOX_DATA_DIR to another directory.")]
    InUse(PathBuf),
    #[error(
        "{0} is damaged: it must hold exactly 32 bytes. Restore it from a backup; without it no key and no URL is valid."
    )]
    Secret(PathBuf),
    #[error(
        "{0} holds other things and is open to other users. Set SKILLBOX_DATA_DIR to a directory of its own, such as \
         {0}/skillbox."
    )]
    Shared(PathBuf),
    #[error("cannot use {path}: {source}. Set SKILLBOX_DATA_DIR to a directory of your own.")]
    Io { path: PathBuf, source: io::Error },
}

impl DataDir {
    /// Makes the directory if needed, closes it to others, and takes its lock.
    pub fn open(path: &Path) -> Result<DataDir, DataDirError> {
        let failed = |source| DataDirError::Io { path: path.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        if is_open(path).map_err(failed)? {
            // Closing a directory that others use, such as /tmp, would take it away from them.
            if !is_ours(path).map_err(failed)? {
                return Err(DataDirError::Shared(path.to_owned()));
            }
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        let lock =
            private().create(true).truncate(false).open(path.join("lock")).map_err(failed)?;
        match take(&lock) {
            Ok(()) => Ok(DataDir { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(DataDirError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where blobs live.
    pub fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    /// The installation's secret, made on the first start.
    pub fn secret(&self) -> Result<Secret, DataDirError> {
        let path = self.path.join("secret");
        let failed = |source| DataDirError::Io { path: path.clone(), source };
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(mut file) => file.read_to_end(&mut bytes).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bytes = rand::random::<[u8; 32]>().to_vec();
                write_private(&path, &bytes).map_err(failed)?;
                bytes.len()
            }
            Err(error) => return Err(failed(error)),
        };
        let bytes = bytes.try_into().map_err(|_| DataDirError::Secret(path.clone()))?;
        Ok(Secret::new(bytes))
    }

    /// Keeps the first key where the command line finds it.
    pub fn keep_key(&self, key: &str) -> Result<(), DataDirError> {
        let path = self.path.join("key");
        write_private(&path, format!("{key}\n").as_bytes())
            .map_err(|source| DataDirError::Io { path, source })
    }
}

/// Takes the lock, with a little patience: a server that was just ended holds it until the last
/// process is gone that it was about to start.
fn take(lock: &File) -> Result<(), TryLockError> {
    for _ in 1..LOCK_TRIES {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            taken => return taken,
        }
    }
    lock.try_lock()
}

/// Whether others than its owner may use the directory.
fn is_open(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// Whether there is nothing in the directory, or what we left.
fn is_ours(path: &Path) -> io::Result<bool> {
    let ours = |name| path.join(name).exists();
    Ok(ours("lock") || ours("secret") || fs::read_dir(path)?.next().is_none())
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Writes a file whole or not at all, so that a crash leaves no half a secret.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = private().create(true).truncate(true).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_locked() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("a/b");
        let held = DataDir::open(&path).expect("a fresh directory");
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert!(matches!(DataDir::open(&path), Err(DataDirError::InUse(_))));

        let secret = held.secret().expect("a new secret");
        held.keep_key("sk-a").expect("a kept key");
        assert_eq!((mode(&path.join("secret")), mode(&path.join("key"))), (0o600, 0o600));
        drop(held);

        let again = DataDir::open(&path).expect("the lock is free again");
        assert_eq!(again.secret().expect("the same").derive("x"), secret.derive("x"));
        fs::write(path.join("secret"), b"short").expect("written");
        assert!(matches!(again.secret(), Err(DataDirError::Secret(_))));
    }

    #[test]
    fn it_is_closed_to_others_unless_others_use_it() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("open");
        let mode = || fs::metadata(&path).expect("metadata").permissions().mode() & 0o777;
        let open_up =
            || fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::create_dir(&path).expect("a directory");
        open_up();
        drop(DataDir::open(&path).expect("an empty directory"));
        assert_eq!(mode(), 0o700);
        open_up();
        drop(DataDir::open(&path).expect("our own directory"));
        assert_eq!(mode(), 0o700);

        fs::remove_file(path.join("lock")).expect("removed");
        fs::write(path.join("somebody's"), "").expect("written");
        open_up();
        assert!(matches!(DataDir::open(&path), Err(DataDirError::Shared(_))));
        assert_eq!(mode(), 0o755);
    }
}
