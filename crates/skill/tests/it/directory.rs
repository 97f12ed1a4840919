//! Skills read from disk.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use skill::{PackageLimits, read_directory};
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
    read_directory(root, &PackageLimits::default()).unwrap_err().slug()
}

#[test]
fn directory_and_its_zip_have_the_same_digest() {
    let dir = skill_dir();
    let root = dir.path().join("demo");
    let package = read_directory(&root, &PackageLimits::default()).unwrap();
    let zipped = read(&skill_with([stored("scripts/main.py", MAIN_PY.as_bytes())])).unwrap();
    assert_eq!(package.digest, zipped.digest);
    assert_eq!(package.findings, []);

    // Its parent is a wrapper around it.
    assert_eq!(
        read_directory(dir.path(), &PackageLimits::default()).unwrap().digest,
        zipped.digest
    );

    fs::set_permissions(root.join("scripts/main.py"), Permissions::from_mode(0o755)).unwrap();
    let changed = read_directory(&root, &PackageLimits::default()).unwrap();
    assert!(changed.files[1].executable);
    assert_ne!(changed.digest, zipped.digest);
}

#[test]
fn links_and_special_files_in_directories_are_rejected() {
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
fn limits_apply_to_directories() {
    let dir = skill_dir();
    let read = |limits| read_directory(dir.path(), &limits).unwrap_err().slug();
    assert_eq!(read(PackageLimits { entries: 3, ..PackageLimits::default() }), "too_many_entries");
    assert_eq!(read(PackageLimits { unpacked_bytes: 20, ..PackageLimits::default() }), "too_large");
    assert_eq!(read(PackageLimits { depth: 1, ..PackageLimits::default() }), "unsafe_path");
    assert_eq!(slug(&dir.path().join("missing")), "unreadable");
    assert_eq!(slug(&dir.path().join("demo/scripts")), "invalid_skill");
}

/// A second process that exchanges a file and a symbolic link for as long as `work` runs.
fn while_swapped<T>(file: &Path, link: &Path, work: impl FnOnce() -> T) -> T {
    /// Ends the exchange when `work` panics, too.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, file, rustix::fs::CWD, link, exchange)
                    .unwrap();
            }
        });
        work()
    })
}

/// What reading by path does: look, then open.
fn look_then_open(file: &Path) -> Option<Vec<u8>> {
    let is_file = fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_file());
    is_file.then(|| fs::read(file).ok()).flatten()
}

#[test]
fn a_link_swapped_in_at_any_moment_is_never_followed() {
    // Of one length, so that the size does not give the exchange away.
    let (own, secret) = ([b'o'; 64], [b's'; 64]);
    let dir = skill_dir();
    let root = dir.path().join("demo");
    let (file, link, outside) =
        (root.join("data"), dir.path().join("link"), dir.path().join("secret"));
    fs::write(&file, own).unwrap();
    fs::write(&outside, secret).unwrap();
    symlink(&outside, &link).unwrap();

    while_swapped(&file, &link, || {
        // Control: the race can be won, and this often it must be tried.
        let attempts =
            (1..2_000_000).find(|_| look_then_open(&file).is_some_and(|bytes| bytes == secret));
        let attempts =
            attempts.expect("looking first and opening later is never caught by the exchange");
        let (mut read, mut refused) = (0, 0);
        while read + refused < attempts.clamp(200, 2_000) || read == 0 || refused == 0 {
            match read_directory(&root, &PackageLimits::default()) {
                Ok(package) => {
                    let data = package.files.iter().find(|file| file.path == "data").unwrap();
                    assert_eq!(&*data.bytes, own, "a file from outside of the skill was packed");
                    read += 1;
                }
                Err(error) => {
                    assert_eq!(error.slug(), "link_entry", "{error}");
                    refused += 1;
                }
            }
        }
    });
}
