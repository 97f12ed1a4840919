//! Any bytes as an archive: refused, or read as another reader reads them, and stored in a form
//! that stays the same.
#![no_main]

use std::io::{Cursor, Read};

use libfuzzer_sys::fuzz_target;
use skill::{Package, PackageLimits, declared_unpacked_bytes, read_archive, verify_and_index};

fuzz_target!(|bytes: &[u8]| {
    let Ok(package) = read_archive(bytes, &PackageLimits::default()) else { return };
    compare(bytes, &package);

    let unpacked = declared_unpacked_bytes(bytes, &PackageLimits::default())
        .expect("what is read can be measured");
    assert!(package.files.iter().map(|file| file.bytes.len() as u64).sum::<u64>() <= unpacked);
    let index = verify_and_index(&package.archive, &package.digest).expect("what was packed opens");
    assert_eq!(index.len(), package.files.len());
    for (entry, file) in index.iter().zip(&package.files) {
        let start = entry.position as usize;
        assert_eq!(
            (&entry.path, &package.archive[start..start + entry.size as usize]),
            (&file.path, &file.bytes[..])
        );
    }
    let again = read_archive(&package.archive, &PackageLimits::default())
        .expect("the canonical form is an archive");
    assert_eq!(again.archive, package.archive);
});

/// The `zip` crate shares no code with our walk. It refuses some of what we accept, such as fields
/// of times without a time; what it reads must be the same. Names may have lost a wrapper directory
/// or a leading `./`.
fn compare(bytes: &[u8], package: &Package) {
    let Ok(mut archive) = zip::ZipArchive::new(Cursor::new(bytes)) else { return };
    let mut seen = Vec::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).expect("is listed elsewhere");
        let mut content = Vec::new();
        file.read_to_end(&mut content).expect("unpacks elsewhere");
        seen.push((file.name().expect("a name").into_owned(), content));
    }
    for file in &package.files {
        let same = |(name, content): &(String, Vec<u8>)| {
            name.ends_with(&file.path) && *content == file.bytes
        };
        assert!(seen.iter().any(same), "{} is something else elsewhere", file.path);
    }
}
