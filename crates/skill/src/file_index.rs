//! The position of each file in a canonical archive, so that one file can be read without the rest.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::{PackageLimits, SkillError, archive};

/// One file of a canonical archive, which stores files as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedFile {
    pub path: String,
    /// The offset of its first byte in the archive.
    pub position: u64,
    pub size: u64,
    pub executable: bool,
    /// Whether it is valid UTF-8.
    pub is_text: bool,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

/// The files of a stored archive, after its digest was checked.
pub fn verify_and_index(
    archive: &[u8],
    expected_digest: &str,
) -> Result<Vec<IndexedFile>, SkillError> {
    if crate::canonical::digest(archive) != expected_digest {
        return Err(SkillError::Digest);
    }
    index_files(archive)
}

/// The files of a trusted archive, such as one that was just packed. Hashes every file, so it must
/// not run on a thread of the async runtime.
pub fn index_files(archive: &[u8]) -> Result<Vec<IndexedFile>, SkillError> {
    // The number of entries was limited when the archive was packed.
    let any_size = PackageLimits { entries: usize::MAX, ..PackageLimits::default() };
    let stored = archive::list_stored_files(archive, &any_size)?;
    let file = |(path, range, executable): (String, std::ops::Range<usize>, bool)| {
        let bytes = &archive[range.clone()];
        IndexedFile {
            path,
            position: range.start as u64,
            size: bytes.len() as u64,
            executable,
            is_text: std::str::from_utf8(bytes).is_ok(),
            sha256: HEXLOWER.encode(&Sha256::digest(bytes)),
        }
    };
    Ok(stored.into_iter().map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_parts;

    #[test]
    fn indexed_positions_and_hashes_match_the_files() {
        let skill_md = b"---\nname: demo\ndescription: A demonstration.\n---\nDo it.\n".to_vec();
        let parts = vec![
            ("SKILL.md".to_owned(), skill_md),
            ("data/blob.bin".to_owned(), vec![0xff; 300]),
            ("empty.txt".to_owned(), Vec::new()),
            ("run.sh".to_owned(), b"#!/bin/sh\ntrue\n".to_vec()),
        ];
        let package = read_parts(parts, &PackageLimits::default()).expect("a skill");
        let index = index_files(&package.archive).expect("our own archive");
        assert_eq!(
            verify_and_index(&package.archive, &package.digest).expect("the same archive"),
            index
        );
        assert!(matches!(verify_and_index(&package.archive, "sha256:0"), Err(SkillError::Digest)));
        assert_eq!(index.len(), package.files.len());
        for (entry, file) in index.iter().zip(&package.files) {
            let start = entry.position as usize;
            assert_eq!(
                package.archive[start..start + entry.size as usize],
                file.bytes,
                "{}",
                file.path
            );
            assert_eq!((&entry.path, entry.executable), (&file.path, file.executable));
            assert_eq!(entry.is_text, entry.path != "data/blob.bin");
            assert_eq!(entry.sha256, HEXLOWER.encode(&Sha256::digest(&file.bytes)));
        }
    }
}
