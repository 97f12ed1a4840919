//! Reading a skill from a directory, for the command line.
//!
//! With [`OpenDirectory`], the only module of this crate that does I/O. Links are rejected and
//! never followed, so that packing a directory cannot include a file from outside it, not even
//! while another process changes the directory.

use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;

use crate::collector::{FileCollector, FileContent};
use crate::package::{self, Package};
use crate::{Hazard, OpenDirectory, PackageLimits, SkillError, path};

/// Reads the skill in `dir`, with the same result as an upload of that directory.
pub fn read_directory(dir: &Path, limits: &PackageLimits) -> Result<Package, SkillError> {
    let tree = OpenDirectory::open(dir).map_err(|source| unreadable(dir, source))?;
    read_open_directory(&tree, limits)
}

/// The same for an open directory.
pub fn read_open_directory(
    tree: &OpenDirectory,
    limits: &PackageLimits,
) -> Result<Package, SkillError> {
    package::assemble(list_files(tree, limits)?, tree.directory_name())
}

/// Collects the names and sizes of all files. Contents are read later and compared with these.
fn list_files<'a>(
    root: &OpenDirectory,
    limits: &'a PackageLimits,
) -> Result<FileCollector<'a>, SkillError> {
    let mut collector = FileCollector::new(limits);
    // Paths below the root, with `/` between components and at the end.
    let mut pending = vec![String::new()];
    while let Some(prefix) = pending.pop() {
        let relative = Path::new(&prefix);
        let directory = root
            .open_subdirectory(relative)
            .map_err(|source| unreadable(&root.path().join(relative), source))?;
        for name in
            directory.entry_names().map_err(|source| unreadable(directory.path(), source))?
        {
            let printable = String::from_utf8_lossy(&name);
            let name = std::str::from_utf8(&name)
                .map_err(|_| Hazard::UnsafePath.in_entry(&format!("{prefix}{printable}")))?;
            let path = format!("{prefix}{name}");
            if !path::is_junk(&path) {
                pending.extend(add_entry(root, &directory, name, path, &mut collector)?);
            }
        }
    }
    Ok(collector)
}

/// Adds one entry. For a directory returns its path, whose entries are still to be read.
///
/// The type found here only selects the error message: another process can replace the entry before
/// it is opened, which happens later and without following links.
fn add_entry(
    root: &OpenDirectory,
    directory: &OpenDirectory,
    name: &str,
    path: String,
    collector: &mut FileCollector<'_>,
) -> Result<Option<String>, SkillError> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|source| unreadable(&directory.path().join(name), source.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            collector.add_directory(&path)?;
            Ok(Some(path + "/"))
        }
        FileType::RegularFile => {
            let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
            let content =
                FileContent::OnDisk { root: root.clone(), relative: PathBuf::from(&path), size };
            collector.add_file(&path, Some(stat.st_mode & 0o111 != 0), size, content)?;
            Ok(None)
        }
        FileType::Symlink => Err(Hazard::Link.in_entry(&path)),
        _ => Err(Hazard::SpecialFile.in_entry(&path)),
    }
}

/// Appends the content of a listed file. A file that changed since is an error, because its space
/// in the archive is already reserved.
pub(crate) fn append_file(
    root: &OpenDirectory,
    relative: &Path,
    size: u64,
    out: &mut Vec<u8>,
) -> Result<(), SkillError> {
    let failed = |source| unreadable(&root.path().join(relative), source);
    let (file, metadata) = root.open_file(relative).map_err(|source| match is_link(&source) {
        true => Hazard::Link.in_entry(&relative.display().to_string()),
        false => failed(source),
    })?;
    let changed = || failed(std::io::Error::other("the file changed while it was read"));
    if metadata.len() != size {
        return Err(changed());
    }
    // One byte more than expected shows that the file grew after its size was read.
    match file.take(size + 1).read_to_end(out).map_err(failed)? as u64 == size {
        true => Ok(()),
        false => Err(changed()),
    }
}

fn is_link(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

fn unreadable(path: &Path, source: std::io::Error) -> SkillError {
    SkillError::Unreadable { path: path.to_owned(), source }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const SECRET: &str = "outside";

    /// A skill with `data/file`, and `secret/file` of the same length beside it.
    fn skill() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for directory in ["skill/data", "secret"] {
            fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        fs::write(home.path().join("skill/SKILL.md"), "---\nname: demo\ndescription: d\n---\n")
            .unwrap();
        fs::write(home.path().join("skill/data/file"), "inside!").unwrap();
        fs::write(home.path().join("secret/file"), SECRET).unwrap();
        home
    }

    /// Reads the skill with `swap` done exactly between the listing and the reading, and the same
    /// way by path.
    fn read_around(swap: impl FnOnce(&Path)) -> (Result<Package, SkillError>, String) {
        let home = skill();
        let limits = PackageLimits::default();
        let tree = OpenDirectory::open(&home.path().join("skill")).unwrap();
        let collector = list_files(&tree, &limits).unwrap();
        swap(home.path());
        let by_path = fs::read_to_string(home.path().join("skill/data/file")).unwrap_or_default();
        (package::assemble(collector, None), by_path)
    }

    #[test]
    fn a_file_swapped_for_a_link_after_the_listing_is_refused() {
        let (read, by_path) = read_around(|home| {
            fs::remove_file(home.join("skill/data/file")).unwrap();
            symlink("../../secret/file", home.join("skill/data/file")).unwrap();
        });
        // Control: opening by path follows the link.
        assert_eq!(by_path, SECRET);
        assert_eq!(read.unwrap_err().slug(), "link_entry");
    }

    #[test]
    fn a_directory_swapped_for_a_link_after_the_listing_is_refused() {
        let (read, by_path) = read_around(|home| {
            fs::rename(home.join("skill/data"), home.join("old")).unwrap();
            symlink("../secret", home.join("skill/data")).unwrap();
        });
        assert_eq!(by_path, SECRET);
        assert_eq!(read.unwrap_err().slug(), "unreadable");
    }

    #[test]
    fn the_root_stays_the_directory_that_was_opened() {
        let (read, by_path) = read_around(|home| {
            fs::rename(home.join("skill"), home.join("old")).unwrap();
            fs::create_dir_all(home.join("other/data")).unwrap();
            fs::write(home.join("other/data/file"), SECRET).unwrap();
            symlink("other", home.join("skill")).unwrap();
        });
        assert_eq!(by_path, SECRET);
        let read = read.unwrap();
        assert_eq!(
            &*read.files.iter().find(|file| file.path == "data/file").unwrap().bytes,
            b"inside!"
        );
    }

    #[test]
    fn a_file_that_grew_or_became_a_pipe_is_refused() {
        let (read, _) = read_around(|home| {
            fs::write(home.join("skill/data/file"), "longer than before").unwrap()
        });
        assert!(read.unwrap_err().to_string().contains("changed while it was read"));
        let home = skill();
        let limits = PackageLimits::default();
        let tree = OpenDirectory::open(&home.path().join("skill")).unwrap();
        let collector = list_files(&tree, &limits).unwrap();
        let file = home.path().join("skill/data/file");
        fs::remove_file(&file).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR).unwrap();
        assert!(
            package::assemble(collector, None)
                .unwrap_err()
                .to_string()
                .contains("not a regular file")
        );
    }

    #[test]
    fn a_path_that_leads_out_is_not_opened() {
        let home = skill();
        let tree = OpenDirectory::open(&home.path().join("skill")).unwrap();
        assert!(tree.open_file(Path::new("data/file")).is_ok());
        let absolute = home.path().join("secret/file");
        for path in [
            Path::new("../secret/file"),
            Path::new("data/../../secret/file"),
            &absolute,
            Path::new(".."),
        ] {
            assert!(
                tree.open_file(path).is_err() && tree.open_subdirectory(path).is_err(),
                "{}",
                path.display()
            );
        }
    }
}
