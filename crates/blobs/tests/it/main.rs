//! The directory backend, on a real file system.

mod directory;
mod writer;

use blobs::Blobs;
use tempfile::TempDir;

/// A fresh place for blobs and the directory that is removed with it.
fn blobs() -> (Blobs, TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let blobs = Blobs::directory(dir.path().join("blobs")).expect("a directory for blobs");
    (blobs, dir)
}

/// Every file below the directory, finished or not.
fn files(dir: &TempDir) -> Vec<String> {
    fn walk(dir: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).expect("a readable directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.push(path.display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    walk(dir.path(), &mut found);
    found
}
