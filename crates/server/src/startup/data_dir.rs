//! The data directory of an embedded server: private, locked by one server at a time, with the secret
//! and the first key in it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::secrets::Secret;

/// How often the lock is tried, and the delay between two tries.
const MAX_LOCK_ATTEMPTS: u32 = 25;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(20);

/// A data directory that this process has locked. The kernel releases the lock when the process
/// ends, also after a crash.
pub(crate) struct DataDir {
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
        "{0} contains other files and is accessible to other users. Set SKILLBOX_DATA_DIR to a directory of its own, such as \
         {0}/skillbox."
    )]
    Shared(PathBuf),
    #[error("cannot use {path}: {source}. Set SKILLBOX_DATA_DIR to a directory of your own.")]
    Io { path: PathBuf, source: io::Error },
}

impl DataDir {
    /// Creates the directory if needed, makes it private, and locks it.
    pub(crate) fn open(path: &Path) -> Result<DataDir, DataDirError> {
        let failed = |source| DataDirError::Io { path: path.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        if is_accessible_to_others(path).map_err(failed)? {
            // Making a shared directory private, such as /tmp, would lock its other users out.
            if !is_ours(path).map_err(failed)? {
                return Err(DataDirError::Shared(path.to_owned()));
            }
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        let lock =
            private().create(true).truncate(false).open(path.join("lock")).map_err(failed)?;
        match lock_with_retries(&lock) {
            Ok(()) => Ok(DataDir { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(DataDirError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of the blobs.
    pub(crate) fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    /// The secret of the installation, generated at the first start.
    pub(crate) fn secret(&self) -> Result<Secret, DataDirError> {
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

    /// Stores the first key where the command line reads it.
    pub(crate) fn write_key(&self, key: &str) -> Result<(), DataDirError> {
        let path = self.path.join("key");
        write_private(&path, format!("{key}\n").as_bytes())
            .map_err(|source| DataDirError::Io { path, source })
    }
}

/// Takes the lock, with retries: after a server was killed, a child that it was just starting still
/// has the inherited descriptor, and with it the lock, for a moment.
fn lock_with_retries(lock: &File) -> Result<(), TryLockError> {
    for _ in 1..MAX_LOCK_ATTEMPTS {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY_DELAY),
            result => return result,
        }
    }
    lock.try_lock()
}

/// Whether other users than the owner have access to the directory.
fn is_accessible_to_others(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// Whether the directory is empty, or a server has used it before.
fn is_ours(path: &Path) -> io::Result<bool> {
    let ours = |name| path.join(name).exists();
    Ok(ours("lock") || ours("secret") || fs::read_dir(path)?.next().is_none())
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Writes a file atomically, so that a crash does not leave half a secret: synced before the rename,
/// or the new name could point to an empty file after a power failure.
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
    fn a_data_directory_is_private_and_locked() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("a/b");
        let held = DataDir::open(&path).expect("a fresh directory");
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert!(matches!(DataDir::open(&path), Err(DataDirError::InUse(_))));

        let secret = held.secret().expect("a new secret");
        held.write_key("sk-a").expect("a stored key");
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
        fs::write(path.join("foreign"), "").expect("written");
        open_up();
        assert!(matches!(DataDir::open(&path), Err(DataDirError::Shared(_))));
        assert_eq!(mode(), 0o755);
    }
}
