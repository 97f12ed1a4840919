//! Stores the files of runs, so that a client can read them while this program runs. With a
//! directory of the user's, they also remain afterwards.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use mcp::{FileContents, ProviderError};
use skill::OpenDirectory;
use tempfile::TempDir;
use url::Url;

/// How much a temporary directory holds. The files of the oldest runs are removed first.
const MAX_STORED_BYTES: u64 = 512 << 20;
/// How many runs with files are remembered, in both kinds of directory.
const MAX_RUNS: usize = 10_000;

/// The directory for the files of runs, with an index of them.
pub(super) struct RunFiles {
    root: Root,
    runs: Mutex<VecDeque<IndexedRun>>,
}

enum Root {
    /// A directory of the user, which is never cleaned up here.
    User(PathBuf),
    /// Removed when this program ends.
    Temporary(TempDir),
}

/// A run that left files.
struct IndexedRun {
    id: String,
    /// The size of each by its name.
    files: BTreeMap<String, u64>,
}

impl IndexedRun {
    fn size(&self) -> u64 {
        self.files.values().sum()
    }
}

impl RunFiles {
    pub(super) fn new(user: Option<PathBuf>) -> Result<RunFiles> {
        let root = match user {
            Some(path) => {
                std::fs::create_dir_all(&path)
                    .with_context(|| format!("cannot make {}", path.display()))?;
                Root::User(
                    path.canonicalize()
                        .with_context(|| format!("cannot use {}", path.display()))?,
                )
            }
            None => Root::Temporary(tempfile::Builder::new().prefix("skillbox-mcp-").tempdir()?),
        };
        Ok(RunFiles { root, runs: Mutex::default() })
    }

    /// The directory of a run. It exists only if the run left files.
    pub(super) fn directory(&self, id: &str) -> PathBuf {
        self.root_path().join(id)
    }

    fn root_path(&self) -> &Path {
        match &self.root {
            Root::User(path) => path,
            Root::Temporary(directory) => directory.path(),
        }
    }

    /// A `file:` URL of a file, if the file stays after this program ends.
    pub(super) fn url(&self, id: &str, name: &str) -> Option<String> {
        match &self.root {
            Root::User(_) => {
                Url::from_file_path(self.directory(id).join(name)).ok().map(String::from)
            }
            Root::Temporary(_) => None,
        }
    }

    /// Adds the files of a run to the index, and removes those of the oldest runs if necessary.
    pub(super) fn add(&self, id: &str, files: &[(String, u64)]) {
        if files.is_empty() {
            return;
        }
        let mut runs = self.runs();
        runs.push_back(IndexedRun { id: id.to_owned(), files: files.iter().cloned().collect() });
        while runs.len() > MAX_RUNS
            || (self.is_temporary()
                && runs.iter().map(IndexedRun::size).sum::<u64>() > MAX_STORED_BYTES)
        {
            let Some(oldest) = runs.pop_front() else { return };
            if self.is_temporary() {
                let _ = std::fs::remove_dir_all(self.directory(&oldest.id));
            }
        }
    }

    /// Reads a file by the exact name that a run gave it. Names that are not in the index do not
    /// reach the file system, so no name can lead out of the directory.
    pub(super) fn read(
        &self,
        id: &str,
        name: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError> {
        let missing =
            || ProviderError::ArtifactNotFound { execution: id.to_owned(), name: name.to_owned() };
        let size = {
            let runs = self.runs();
            let run = runs.iter().find(|run| run.id == id);
            *run.and_then(|run| run.files.get(name)).ok_or_else(missing)?
        };
        if size > max_bytes as u64 {
            return Err(ProviderError::TooLarge { size, max_bytes });
        }
        let bytes =
            read(self.root_path(), &Path::new(id).join(name), size).map_err(|_| missing())?;
        Ok(FileContents { bytes, content_type: None })
    }

    fn is_temporary(&self) -> bool {
        matches!(self.root, Root::Temporary(_))
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<IndexedRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads at most `size` bytes, without following links: a file in the user's directory may have grown
/// or may have been replaced by a link to another file.
fn read(root: &Path, relative: &Path, size: u64) -> std::io::Result<Vec<u8>> {
    let (file, _) = OpenDirectory::open(root)?.open_file(relative)?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn add_file(files: &RunFiles, id: &str, name: &str, size: u64) {
        std::fs::create_dir_all(files.directory(id)).expect("a directory");
        File::create(files.directory(id).join(name))
            .and_then(|file| file.set_len(size))
            .expect("a file");
        files.add(id, &[(name.to_owned(), size)]);
    }

    #[test]
    fn only_files_of_runs_can_be_read() {
        let files = RunFiles::new(None).expect("a directory");
        add_file(&files, "a", "x.txt", 3);
        assert_eq!(files.read("a", "x.txt", 3).expect("a file").bytes, [0; 3]);
        assert!(matches!(
            files.read("a", "x.txt", 2),
            Err(ProviderError::TooLarge { size: 3, max_bytes: 2 })
        ));
        for (id, name) in
            [("a", "y"), ("b", "x.txt"), ("a", "../a/x.txt"), ("..", "x.txt"), ("a", "/etc/passwd")]
        {
            assert!(
                matches!(files.read(id, name, 9), Err(ProviderError::ArtifactNotFound { .. })),
                "{id} {name}"
            );
        }
    }

    #[test]
    fn a_file_replaced_by_a_link_is_not_read() {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::write(home.path().join("secret"), "xyz").expect("a file");
        let files = RunFiles::new(Some(home.path().join("files"))).expect("a directory");
        add_file(&files, "a", "x.txt", 3);
        let path = files.directory("a").join("x.txt");
        std::fs::remove_file(&path).expect("it exists");
        std::os::unix::fs::symlink(home.path().join("secret"), &path).expect("a link");
        // Control: the path leads to the secret.
        assert_eq!(std::fs::read(&path).expect("a file"), b"xyz");
        assert!(matches!(files.read("a", "x.txt", 9), Err(ProviderError::ArtifactNotFound { .. })));

        // The same for the directory of the run.
        add_file(&files, "b", "secret", 3);
        std::fs::rename(files.directory("b"), home.path().join("moved")).expect("it exists");
        std::os::unix::fs::symlink(home.path(), files.directory("b")).expect("a link");
        assert_eq!(std::fs::read(files.directory("b").join("secret")).expect("a file"), b"xyz");
        assert!(matches!(
            files.read("b", "secret", 9),
            Err(ProviderError::ArtifactNotFound { .. })
        ));
    }

    #[test]
    fn the_oldest_files_are_removed_first() {
        let files = RunFiles::new(None).expect("a directory");
        for id in ["a", "b", "c"] {
            add_file(&files, id, "sparse", MAX_STORED_BYTES / 2);
        }
        assert!(matches!(
            files.read("a", "sparse", usize::MAX),
            Err(ProviderError::ArtifactNotFound { .. })
        ));
        assert!(
            !files.directory("a").exists()
                && files.directory("b").exists()
                && files.directory("c").exists()
        );
    }

    #[test]
    fn files_in_the_users_directory_are_not_removed() {
        let home = tempfile::tempdir().expect("a directory");
        let files = RunFiles::new(Some(home.path().join("files"))).expect("a directory");
        for id in ["a", "b", "c"] {
            add_file(&files, id, "sparse", MAX_STORED_BYTES / 2);
        }
        assert!(files.directory("a").exists());
        assert!(files.url("a", "sparse").is_some_and(|url| url.starts_with("file:///")));
    }
}
