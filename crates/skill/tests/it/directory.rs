//! Skills read from disk.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use skill::{Limits, read_directory};
use tempfile::TempDir;

use crate::support::*;

fn skill_dir() -> TempDir {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("demo");
    fs::create_dir_all(root.join("scripts/empty")).unwrap();
    fs::write(root.join("SKILL.md"), SKILL_MD).unwrap();
    fs::write(root.join("scripts/main.py"), MAIN_PY).unwrap();
    fs::write(root.join(".DS_Store"), "junk").unwrap();
    dir
}

fn slug(root: &Path) -> &'static str {
    read_directory(root, &Limits::default()).unwrap_err().slug()
}

#[test]
fn a_directory_gives_the_digest_of_its_zip() {
    let dir = skill_dir();
    let root = dir.path().join("demo");
    let package = read_directory(&root, &Limits::default()).unwrap();
    let zipped = read(&skill_with([stored("scripts/main.py", MAIN_PY.as_bytes())])).unwrap();
    assert_eq!(package.digest, zipped.digest);
    assert_eq!(package.findings, []);

    // Its parent is a wrapper around it.
    assert_eq!(read_directory(dir.path(), &Limits::default()).unwrap().digest, zipped.digest);

    fs::set_permissions(root.join("scripts/main.py"), Permissions::from_mode(0o755)).unwrap();
    let changed = read_directory(&root, &Limits::default()).unwrap();
    assert!(changed.files[1].executable);
    assert_ne!(changed.digest, zipped.digest);
}

#[test]
fn links_and_special_files_are_refused() {
    let dir = skill_dir();
    let link = dir.path().join("demo/link");
    symlink("/etc/passwd", &link).unwrap();
    assert_eq!(slug(dir.path()), "link_entry");
    fs::remove_file(&link).unwrap();

    symlink("scripts", &link).unwrap();
    assert_eq!(slug(dir.path()), "link_entry");
    fs::remove_file(&link).unwrap();

    let _listener = UnixListener::bind(&link).unwrap();
    assert_eq!(slug(dir.path()), "special_file");
}

#[test]
fn limits_hold_on_disk_too() {
    let dir = skill_dir();
    let read = |limits| read_directory(dir.path(), &limits).unwrap_err().slug();
    assert_eq!(read(Limits { entries: 3, ..Limits::default() }), "too_many_entries");
    assert_eq!(read(Limits { unpacked_bytes: 20, ..Limits::default() }), "too_large");
    assert_eq!(read(Limits { depth: 1, ..Limits::default() }), "unsafe_path");
    assert_eq!(slug(&dir.path().join("missing")), "unreadable");
    assert_eq!(slug(&dir.path().join("demo/scripts")), "invalid_skill");
}
