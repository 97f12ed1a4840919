//! The files of runs, so that they can be asked for as long as this program runs; with a directory
//! of the user's, longer.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use mcp::{FileContents, ProviderError};
use skill::Tree;
use tempfile::TempDir;
use url::Url;

/// What is kept of runs at most, where the directory is ours: the files of the oldest go first.
const MAX_BYTES: u64 = 512 << 20;
/// What is remembered of runs, in either case.
const MAX_RUNS: usize = 10_000;

/// Where the files of runs go, and which there are.
pub struct Files {
    root: Root,
    runs: Mutex<VecDeque<Run>>,
}

enum Root {
    /// The user's, who looks after it.
    Kept(PathBuf),
    /// Removed at our end.
    Meanwhile(TempDir),
}

/// A run that left files.
struct Run {
    id: String,
    /// The size of each by its name.
    files: BTreeMap<String, u64>,
}

impl Run {
    fn size(&self) -> u64 {
        self.files.values().sum()
    }
}

impl Files {
    pub fn new(kept: Option<PathBuf>) -> Result<Files> {
        let root = match kept {
            Some(path) => {
                std::fs::create_dir_all(&path)
                    .with_context(|| format!("cannot make {}", path.display()))?;
                Root::Kept(
                    path.canonicalize()
                        .with_context(|| format!("cannot use {}", path.display()))?,
                )
            }
            None => Root::Meanwhile(tempfile::Builder::new().prefix("skillbox-mcp-").tempdir()?),
        };
        Ok(Files { root, runs: Mutex::default() })
    }

    /// The directory of a run, which is there when it has files.
    pub fn place(&self, id: &str) -> PathBuf {
        self.root_path().join(id)
    }

    fn root_path(&self) -> &Path {
        match &self.root {
            Root::Kept(path) => path,
            Root::Meanwhile(directory) => directory.path(),
        }
    }

    /// Where somebody finds a file without us, when it stays there.
    pub fn url(&self, id: &str, name: &str) -> Option<String> {
        match &self.root {
            Root::Kept(_) => Url::from_file_path(self.place(id).join(name)).ok().map(String::from),
            Root::Meanwhile(_) => None,
        }
    }

    /// Remembers the files of a run, and makes room for them.
    pub fn add(&self, id: &str, files: &[(String, u64)]) {
        if files.is_empty() {
            return;
        }
        let mut runs = self.runs();
        runs.push_back(Run { id: id.to_owned(), files: files.iter().cloned().collect() });
        while runs.len() > MAX_RUNS
            || (self.is_ours() && runs.iter().map(Run::size).sum::<u64>() > MAX_BYTES)
        {
            let Some(oldest) = runs.pop_front() else { return };
            if self.is_ours() {
                let _ = std::fs::remove_dir_all(self.place(&oldest.id));
            }
        }
    }

    /// A file by the exact name that a run gave it: no other can be named.
    pub fn read(
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

    fn is_ours(&self) -> bool {
        matches!(self.root, Root::Meanwhile(_))
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No more than there was: in the user's directory it may have grown, or have become a link to
/// something else.
fn read(root: &Path, relative: &Path, size: u64) -> std::io::Result<Vec<u8>> {
    let (file, _) = Tree::open(root)?.open_file(relative)?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn left(files: &Files, id: &str, name: &str, size: u64) {
        std::fs::create_dir_all(files.place(id)).expect("a directory");
        File::create(files.place(id).join(name))
            .and_then(|file| file.set_len(size))
            .expect("a file");
        files.add(id, &[(name.to_owned(), size)]);
    }

    #[test]
    fn only_what_a_run_left_is_read() {
        let files = Files::new(None).expect("a place");
        left(&files, "a", "x.txt", 3);
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
    fn a_file_that_became_a_link_is_not_read() {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::write(home.path().join("secret"), "xyz").expect("a file");
        let files = Files::new(Some(home.path().join("kept"))).expect("a place");
        left(&files, "a", "x.txt", 3);
        let path = files.place("a").join("x.txt");
        std::fs::remove_file(&path).expect("it is there");
        std::os::unix::fs::symlink(home.path().join("secret"), &path).expect("a link");
        // Control: the name leads to the secret.
        assert_eq!(std::fs::read(&path).expect("a file"), b"xyz");
        assert!(matches!(files.read("a", "x.txt", 9), Err(ProviderError::ArtifactNotFound { .. })));

        // The same for the directory of the run.
        left(&files, "b", "secret", 3);
        std::fs::rename(files.place("b"), home.path().join("moved")).expect("it is there");
        std::os::unix::fs::symlink(home.path(), files.place("b")).expect("a link");
        assert_eq!(std::fs::read(files.place("b").join("secret")).expect("a file"), b"xyz");
        assert!(matches!(
            files.read("b", "secret", 9),
            Err(ProviderError::ArtifactNotFound { .. })
        ));
    }

    #[test]
    fn the_oldest_make_room() {
        let files = Files::new(None).expect("a place");
        for id in ["a", "b", "c"] {
            left(&files, id, "sparse", MAX_BYTES / 2);
        }
        assert!(matches!(
            files.read("a", "sparse", usize::MAX),
            Err(ProviderError::ArtifactNotFound { .. })
        ));
        assert!(
            !files.place("a").exists() && files.place("b").exists() && files.place("c").exists()
        );
    }

    #[test]
    fn what_the_user_keeps_is_not_removed() {
        let home = tempfile::tempdir().expect("a directory");
        let files = Files::new(Some(home.path().join("kept"))).expect("a place");
        for id in ["a", "b", "c"] {
            left(&files, id, "sparse", MAX_BYTES / 2);
        }
        assert!(files.place("a").exists());
        assert!(files.url("a", "sparse").is_some_and(|url| url.starts_with("file:///")));
    }
}
