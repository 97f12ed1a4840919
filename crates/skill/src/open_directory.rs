//! An open directory whose files are opened only relative to its descriptor.
//!
//! Every component of a path is opened relative to its parent with `O_NOFOLLOW`, and the opened
//! descriptor is examined. If a path were examined first and opened later, another process could
//! put a symbolic link there in between.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
// Opening a named pipe or a terminal must neither block nor have a side effect: such a file is only
// rejected after it was opened.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// An open directory. Clones share the descriptor.
#[derive(Debug, Clone)]
pub struct OpenDirectory {
    root: Arc<OwnedFd>,
    /// For messages and names; nothing is opened by this path.
    path: PathBuf,
}

impl OpenDirectory {
    /// Opens the directory that the user named. Links in this path are followed, because the user
    /// chose it.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            root: Arc::new(openat(CWD, path, DIRECTORY, Mode::empty())?),
            path: path.to_owned(),
        })
    }

    /// The directory that was opened as `file`; returns the file if it is not a directory.
    pub fn from_file(file: File, path: &Path) -> io::Result<Result<Self, File>> {
        match file.metadata()?.is_dir() {
            true => Ok(Ok(Self { root: Arc::new(file.into()), path: path.to_owned() })),
            false => Ok(Err(file)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this path currently resolves to this directory.
    pub fn is_same_as(&self, path: &Path) -> bool {
        let ours = rustix::fs::fstat(&self.root).map(|stat| (stat.st_dev, stat.st_ino));
        let other = rustix::fs::stat(path).map(|stat| (stat.st_dev, stat.st_ino));
        matches!((ours, other), (Ok(ours), Ok(other)) if ours == other)
    }

    /// A directory below this one.
    pub fn open_subdirectory(&self, relative: &Path) -> io::Result<Self> {
        Ok(Self { root: Arc::new(self.open_path(relative)?), path: self.path.join(relative) })
    }

    /// An entry of this directory that may be a link to a directory. The result can be anywhere.
    pub fn open_entry_following_links(&self, name: &OsStr) -> io::Result<Self> {
        components(Path::new(name))?;
        Ok(Self {
            root: Arc::new(openat(&self.root, name, DIRECTORY, Mode::empty())?),
            path: self.path.join(name),
        })
    }

    /// A regular file below this directory, with the metadata of the opened file.
    pub fn open_file(&self, relative: &Path) -> io::Result<(File, Metadata)> {
        let name = relative.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.open_path(relative.parent().unwrap_or(Path::new("")))?;
        let file = File::from(openat(&parent, name, FILE, Mode::empty())?);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok((file, metadata)),
            false => Err(io::Error::other("not a regular file")),
        }
    }

    /// The names in this directory, in no order.
    pub fn entry_names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.root)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// The name of the directory, if it is UTF-8.
    pub(crate) fn directory_name(&self) -> Option<String> {
        let path = fs::canonicalize(&self.path).ok()?;
        path.file_name().and_then(OsStr::to_str).map(str::to_owned)
    }

    fn open_path(&self, relative: &Path) -> io::Result<OwnedFd> {
        let mut directory = self.root.try_clone()?;
        for name in components(relative)? {
            directory = openat(&directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(directory)
    }
}

impl AsFd for OpenDirectory {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.root.as_fd()
    }
}

/// The components of a plain relative path. `..` would leave the directory even without a link.
fn components(path: &Path) -> io::Result<Vec<&OsStr>> {
    let plain = |component| match component {
        Component::Normal(name) if !name.as_bytes().contains(&0) => Ok(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    path.components().map(plain).collect()
}
