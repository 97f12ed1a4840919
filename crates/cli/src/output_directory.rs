//! Writes untrusted files into a directory, and never outside of it.
//!
//! The file names come from skills and may be hostile. Each name is checked, and then every part of
//! the path is opened relative to its parent without following links, so that a link planted in the
//! directory cannot redirect a write either.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

const DIRECTORY_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// An open directory for untrusted files.
pub(crate) struct OutputDirectory {
    path: PathBuf,
    directory: OwnedFd,
}

impl OutputDirectory {
    /// Opens the directory, and creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot create the directory {}", path.display()))?;
        let directory = openat(CWD, path, DIRECTORY_FLAGS, Mode::empty())
            .with_context(|| format!("cannot open the directory {}", path.display()))?;
        Ok(Self { path: path.to_owned(), directory })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a file. It gets its final name only when it is finished, so that a reader never sees an
    /// incomplete file.
    pub(crate) fn create(&self, name: &str, executable: bool) -> Result<PartialFile> {
        let (parents, last) = split_name(name)?;
        let mut directory = self.directory.try_clone().context("cannot open another file")?;
        for part in parents {
            directory = open_subdirectory(&directory, part).with_context(|| {
                format!("refused to write {name}: `{part}` is not a plain directory")
            })?;
        }
        // `renameat` would replace a link or a device with our file. That would be safe, but an entry of
        // another type means that the directory is not what the caller expects.
        let is_other_type = statat(&directory, last, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| !FileType::from_raw_mode(stat.st_mode).is_file());
        if is_other_type {
            bail!("refused to write {name}: something that is not a plain file is already there");
        }
        let part = format!(".{}.part", std::process::id());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
        let file = openat(&directory, &part, flags, mode)
            .with_context(|| format!("cannot write {name}"))?;
        Ok(PartialFile {
            directory,
            part: Some(part),
            name: last.to_owned(),
            file: File::from(file),
        })
    }
}

/// A file that is being written. If it is dropped before `finish`, it is deleted.
pub(crate) struct PartialFile {
    directory: OwnedFd,
    part: Option<String>,
    name: String,
    file: File,
}

impl PartialFile {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_context(|| format!("cannot write {}", self.name))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        if let Some(part) = &self.part {
            renameat(&self.directory, part, &self.directory, &self.name)
                .with_context(|| format!("cannot write {}", self.name))?;
        }
        self.part = None;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = unlinkat(&self.directory, part, AtFlags::empty());
        }
    }
}

/// Opens a subdirectory, and creates it if it does not exist. A link is refused.
fn open_subdirectory(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    match mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    openat(parent, name, DIRECTORY_FLAGS | OFlags::NOFOLLOW, Mode::empty())
}

/// Splits a relative name into its parents and its last part; fails on anything else.
fn split_name(name: &str) -> Result<(Vec<&str>, &str)> {
    let is_invalid = |part: &&str| {
        part.is_empty()
            || matches!(*part, "." | "..")
            || part.contains(['\\', '\0'])
            || part.chars().any(char::is_control)
    };
    let mut parts: Vec<&str> = name.split('/').collect();
    if parts.iter().any(is_invalid) {
        bail!("refused to write a file called {name:?}: not a plain relative path");
    }
    let last = parts.pop().with_context(|| format!("refused to write a file called {name:?}"))?;
    Ok((parts, last))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn write(output: &OutputDirectory, name: &str) -> Result<()> {
        let mut file = output.create(name, false)?;
        file.write(b"bytes")?;
        file.finish()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("a directory");
        entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect()
    }

    #[test]
    fn names_outside_the_directory_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let output =
            OutputDirectory::open(&directory.path().join("in")).expect("an output directory");
        for name in
            ["../out", "/etc/passwd", "a/../../out", "", ".", "a//b", "a/", "..", "a\\b", "a\nb"]
        {
            assert!(write(&output, name).is_err(), "{name:?}");
        }
        assert_eq!(names(directory.path()), ["in"]);
        assert!(names(&directory.path().join("in")).is_empty());
    }

    #[test]
    fn links_are_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let outside = directory.path().join("outside");
        std::fs::create_dir(&outside).expect("a directory");
        std::fs::write(outside.join("victim"), "untouched").expect("a file");
        let inside = directory.path().join("in");
        let output = OutputDirectory::open(&inside).expect("an output directory");
        symlink(&outside, inside.join("dir")).expect("a link");
        symlink(outside.join("victim"), inside.join("file")).expect("a link");
        assert!(write(&output, "dir/new").is_err());
        assert!(write(&output, "file").is_err());
        assert_eq!(std::fs::read_to_string(outside.join("victim")).expect("a file"), "untouched");
        assert_eq!(names(&outside), ["victim"]);
    }

    #[test]
    fn finished_files_replace_old_ones_and_keep_their_mode() {
        let directory = tempfile::tempdir().expect("a directory");
        let output = OutputDirectory::open(directory.path()).expect("an output directory");
        std::fs::write(directory.path().join("a"), "old and longer").expect("a file");
        write(&output, "a").expect("a file");
        assert_eq!(std::fs::read(directory.path().join("a")).expect("a file"), b"bytes");

        output.create("deep/er/run.sh", true).expect("a file").finish().expect("an empty file");
        let mode = std::fs::metadata(directory.path().join("deep/er/run.sh"))
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o111, 0o111 & !umask());

        let mut cut = output.create("cut", false).expect("a file");
        cut.write(b"half").expect("a write");
        drop(cut);
        assert!(
            !names(directory.path())
                .iter()
                .any(|name| name.contains("cut") || name.ends_with(".part"))
        );
    }

    fn umask() -> u32 {
        let probe = tempfile::tempdir().expect("a directory");
        let path = probe.path().join("probe");
        std::fs::create_dir(&path).expect("a directory");
        !std::fs::metadata(path).expect("a directory").permissions().mode() & 0o777
    }
}
