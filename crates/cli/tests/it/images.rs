//! The images that skills run in must not contain anything that helps a privilege escalation, no matter
//! how they were built.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;
use tar::{Builder, EntryType, Header};
use tempfile::NamedTempFile;

use crate::engine::{Engine, repository, variable};

/// A runtime, its interpreter, and the image that its Dockerfile begins with.
const RUNTIMES: &[(&str, &str, &str)] = &[
    ("python", "python3", "python:3.12-slim-bookworm"),
    ("node", "node", "node:20-bookworm-slim"),
    ("bash", "bash", "debian:bookworm-slim"),
];

fn check(runtime: &str, archive: &Path) -> Output {
    let script = repository().join("deploy/images/check-rootfs.sh");
    Command::new(script).arg(runtime).arg(archive).output().expect("the check runs")
}

#[track_caller]
fn assert_clean(runtime: &str, archive: &Path) {
    let output = check(runtime, archive);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn images_from_debian_packages_are_clean() {
    let Some(images) = variable("SKILLBOX_TEST_IMAGES") else {
        return println!("NEEDS ENGINE: that root file systems from Debian packages are clean");
    };
    for (runtime, _, _) in RUNTIMES {
        let archives: Vec<_> = std::fs::read_dir(&images)
            .expect("the directory of the archives")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| {
                path.file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| name.starts_with(&format!("{runtime}-")))
            })
            .collect();
        assert!(!archives.is_empty(), "no archive of {runtime} in {images}");
        for archive in archives {
            assert_clean(runtime, &archive);
        }
    }
}

#[test]
fn the_check_rejects_unclean_images() {
    let regular = |name: &'static str, mode| (name, EntryType::Regular, mode);
    let good = [
        regular("./usr/bin/sh", 0o755),
        regular("./usr/bin/sha256sum", 0o755),
        regular("./usr/bin/bash", 0o755),
    ];
    assert_clean("bash", archive(&good).path());
    for (bad, complaint) in [
        (regular("./usr/bin/su", 0o4755), "rights of another user"),
        (regular("./usr/bin/chage", 0o2755), "rights of another user"),
        (("./var/mail/", EntryType::Directory, 0o2775), "rights of another user"),
        (("./dev/null", EntryType::Char, 0o666), "a device"),
        (("./dev/sda", EntryType::Block, 0o660), "a device"),
        (("./run/pipe", EntryType::Fifo, 0o660), "a device"),
        (regular("./etc/passwd", 0o666), "every user may change"),
        (regular("./var/lib/apt/lists/lock", 0o644), "a package manager"),
        (regular("./usr/bin/apt-get", 0o755), "a package manager"),
    ] {
        let mut entries = good.to_vec();
        entries.push(bad);
        let output = check("bash", archive(&entries).path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(complaint), "{}: {said}", bad.0);
    }
    let output = check("node", archive(&good).path());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("has no node"),
        "another runtime is not this one"
    );
}

fn archive(entries: &[(&str, EntryType, u32)]) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    let mut builder = Builder::new(file.reopen().expect("the file again"));
    for (name, kind, mode) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_size(0);
        builder.append_data(&mut header, name, std::io::empty()).expect("an entry");
    }
    builder.finish().expect("an end");
    file
}

/// The registry is not available here, so each Dockerfile starts from an unclean image with the name of
/// its base image.
#[test]
fn images_from_dockerfiles_are_clean_and_configured_like_an_import() {
    let Some(engine) = Engine::here("that the runtimes' Dockerfiles build clean images") else {
        return;
    };
    for (runtime, interpreter, base) in RUNTIMES {
        let context = tempfile::tempdir().expect("a directory");
        let dirty = context.path().join("Dockerfile");
        let text = format!(
            "FROM skillbox/{runtime}:test\nUSER root\nRUN cp /bin/cat /usr/bin/climb && chmod 6755 /usr/bin/climb \
             && mkdir -p -m 2755 /var/lib/apt/lists && touch /var/lib/apt/lists/lock /usr/bin/apt-get\n"
        );
        std::fs::write(&dirty, text).expect("a Dockerfile");
        let _base = engine.build(&dirty, context.path(), base);
        let folder = repository().join("deploy/images").join(runtime);
        let image = engine.build(
            &folder.join("Dockerfile"),
            &folder,
            &format!("skillbox-test/{runtime}:built"),
        );

        let container = engine.docker(&["create", "--network", "none", &image.tag]);
        let exported = export(&engine, &container);
        engine.docker(&["rm", "--force", &container]);
        assert_clean(runtime, exported.path());

        let (built, imported) = (
            engine.configuration(&image.tag),
            engine.configuration(&format!("skillbox/{runtime}:test")),
        );
        for field in ["User", "Env", "Cmd", "Entrypoint", "WorkingDir", "Volumes"] {
            assert_eq!(built[field], imported[field], "{field} of {runtime}");
        }
        assert_eq!(built["User"], json!("65534:65534"));
        engine.docker(&[
            "run", "--rm", "--network", "none", "--read-only", &image.tag, interpreter, "--version",
        ]);
    }
}

fn export(engine: &Engine, container: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    let to = Stdio::from(file.reopen().expect("the file again"));
    let status =
        engine.command(&["export", container]).stdout(to).status().expect("the docker client runs");
    assert!(status.success(), "the container was not exported");
    assert!(holds_something(file.as_file_mut()), "the export is empty");
    file
}

fn holds_something(file: &mut File) -> bool {
    file.seek(SeekFrom::Start(0)).is_ok() && file.read(&mut [0]).is_ok_and(|read| read == 1)
}
