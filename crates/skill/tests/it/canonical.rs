//! The stored form: deterministic, exact, and checked when it is opened.

use bytes::Bytes;
use proptest::prelude::*;
use skill::{Package, PackageLimits, SkillFile, read_archive, verify_and_index};

use crate::support::*;

/// The digest is kept in databases and signatures, so it may never change for the same skill.
#[test]
fn digest_of_a_known_skill_is_stable() {
    let package = read_parts(&[("SKILL.md", SKILL_MD), ("scripts/run", "#!/bin/sh\n")]).unwrap();
    assert_eq!(
        package.digest,
        "sha256:32a712bb8630373d1d2a3bfb332ced0b73dee600c14c2634cf3c492770d21ecd"
    );
    let headers = 2 * (30 + 46) + 2 * ("SKILL.md".len() + "scripts/run".len()) + 22;
    assert_eq!(package.archive.len(), headers + SKILL_MD.len() + "#!/bin/sh\n".len());
}

#[test]
fn stored_archives_are_verified_by_digest() {
    let package = read_parts(&[("SKILL.md", SKILL_MD), ("main.py", MAIN_PY)]).unwrap();
    let index = verify_and_index(&package.archive, &package.digest).unwrap();
    assert!(index.iter().map(|file| &file.path).eq(package.files.iter().map(|file| &file.path)));
    for at in 0..package.archive.len() {
        let mut changed = package.archive.to_vec();
        changed[at] ^= 1;
        let error = verify_and_index(&changed, &package.digest).unwrap_err();
        assert_eq!(error.slug(), "digest_mismatch");
    }
    for digest in
        ["", "sha256:", &package.digest.to_uppercase(), &package.digest["sha256:".len()..]]
    {
        assert!(verify_and_index(&package.archive, digest).is_err(), "{digest}");
    }
}

#[test]
fn files_are_views_into_the_archive() {
    let package = read_parts(&[("SKILL.md", SKILL_MD), ("main.py", MAIN_PY)]).unwrap();
    let archive = package.archive.as_ptr_range();
    for file in &package.files {
        assert!(archive.contains(&file.bytes.as_ptr()), "{}", file.path);
    }
}

fn tree() -> impl Strategy<Value = Vec<(String, Vec<u8>, bool)>> {
    let name = "[a-z0-9 äß_.%~-]{1,8}".prop_filter("plain", |name| name != "." && name != "..");
    let path = prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"));
    let file = (path, prop::collection::vec(any::<u8>(), 0..300), any::<bool>());
    prop::collection::vec(file, 0..12).prop_map(|files| {
        let mut all = vec![("SKILL.md".to_owned(), SKILL_MD.as_bytes().to_vec(), false)];
        for file in files {
            // Only names that can live together, as a file system would have it.
            let folded = |path: &str| format!("{}/", path.to_lowercase().replace('ß', "ss"));
            let clash = |other: &str| {
                let (a, b) = (folded(other), folded(&file.0));
                a.starts_with(&b) || b.starts_with(&a)
            };
            if !all.iter().any(|(path, ..)| clash(path)) {
                all.push(file);
            }
        }
        all
    })
}

fn sorted(mut files: Vec<(String, Vec<u8>, bool)>) -> Vec<SkillFile> {
    files.sort();
    let file =
        |(path, bytes, executable)| SkillFile { path, bytes: Bytes::from(bytes), executable };
    files.into_iter().map(file).collect()
}

fn packed_by_us(files: &[(String, Vec<u8>, bool)], deflate_all: bool, time: u32) -> Package {
    let pack = |(path, bytes, executable): &(String, Vec<u8>, bool)| {
        let entry = if deflate_all { deflated(path, bytes) } else { stored(path, bytes) };
        entry
            .both(|header| header.time = time)
            .with(|entry| entry.mode |= if *executable { 0o111 } else { 0 })
    };
    read(&zip(&files.iter().map(pack).collect::<Vec<_>>())).unwrap()
}

fn packed_by_zip_crate(files: &[(String, Vec<u8>, bool)]) -> Package {
    use std::io::Write;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, bytes, executable) in files {
        let mode = if *executable { 0o755 } else { 0o644 };
        let options = zip::write::SimpleFileOptions::default().unix_permissions(mode);
        writer.start_file(path.as_str(), options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    read_archive(&writer.finish().unwrap().into_inner(), &PackageLimits::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packing_keeps_every_file(files in tree(), time in any::<u32>(), rotation in 0usize..12) {
        let expected = sorted(files.clone());
        let package = packed_by_us(&files, false, 0);
        prop_assert_eq!(&package.files, &expected);
        for (entry, file) in verify_and_index(&package.archive, &package.digest).unwrap().iter().zip(&expected) {
            let bytes = &package.archive[entry.position as usize..][..entry.size as usize];
            prop_assert_eq!((&entry.path, bytes, entry.executable), (&file.path, &file.bytes[..], file.executable));
        }

        let mut rotated = files.clone();
        rotated.rotate_left(rotation % files.len());
        for other in [packed_by_us(&rotated, true, time), packed_by_zip_crate(&rotated)] {
            prop_assert_eq!(&other.digest, &package.digest);
            prop_assert_eq!(&other.archive, &package.archive);
        }
        // The canonical form is itself an archive, and its own canonical form.
        prop_assert_eq!(&read(&package.archive).unwrap().archive, &package.archive);
    }

    #[test]
    fn parts_keep_their_bytes(files in tree()) {
        let parts = files.iter().map(|(path, bytes, _)| (path.clone(), bytes.clone())).collect();
        let package = skill::read_parts(parts, &PackageLimits::default()).unwrap();
        let expected = files.into_iter().map(|(path, bytes, _)| {
            let executable = bytes.starts_with(b"#!");
            (path, bytes, executable)
        });
        prop_assert_eq!(package.files, sorted(expected.collect()));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let framed = [b"PK\x03\x04", bytes.as_slice(), b"PK\x05\x06", &[0; 18]].concat();
        prop_assert!(read(&bytes).is_err());
        prop_assert!(read(&framed).is_err());
        let _ = skill::read_parts(vec![("SKILL.md".into(), [b"---\n", &*bytes, b"\n---\n"].concat())], &PackageLimits::default());
    }
}
