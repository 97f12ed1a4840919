//! Small archives, cut at every byte, flipped in every bit, and changed at random: never a panic,
//! never other content.

use std::io::{Cursor, Read};

use skill::Package;

use crate::corpus::{SKILL_FILES, archives};
use crate::support::*;

/// How many are tried here; the fuzz target (`make fuzz`) tries a million.
const RANDOM_MUTANTS: usize = 30_000;

#[test]
fn truncated_archives_are_rejected() {
    for (what, archive) in archives() {
        assert!(read(&archive).is_ok(), "{what}: {:?}", read(&archive).err());
        for len in 0..archive.len() {
            let error = read(&archive[..len]).expect_err("accepted");
            assert!(!error.to_string().is_empty(), "{what} cut at {len}");
        }
        for start in 1..archive.len() {
            assert!(read(&archive[start..]).is_err(), "{what} starting at {start}");
        }
    }
}

/// Paths and bytes; the executable bit may change with a mode.
fn bytes_of(package: &Package) -> Vec<(&str, &[u8])> {
    let file = |(path, bytes, _)| (path, bytes);
    contents(package).into_iter().map(file).collect()
}

#[test]
fn a_flipped_bit_is_detected_or_harmless() {
    let (mut accepted, mut refused) = (0, 0);
    for (what, archive) in archives() {
        let honest = read(&archive).unwrap();
        for at in 0..archive.len() {
            for change in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff] {
                let mut mutant = archive.clone();
                mutant[at] ^= change;
                let Ok(package) = read(&mutant) else {
                    refused += 1;
                    continue;
                };
                assert_eq!(
                    bytes_of(&package),
                    bytes_of(&honest),
                    "{what}: byte {at} ^ {change:#x}"
                );
                accepted += 1;
            }
        }
    }
    // Times, versions, comments and modes may change freely; names, sizes and contents may not.
    assert!(refused > 3 * accepted, "{refused} refused, {accepted} accepted");
}

/// A generator of its own, so that a failure can be repeated.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    /// One to four changes: bytes, numbers that matter, and pieces cut, doubled or moved.
    fn mutate(&mut self, original: &[u8]) -> Vec<u8> {
        const NUMBERS: [&[u8]; 8] = [
            &[0; 2], &[0xff; 2], &[0; 4], &[0xff; 4], b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06",
            b"PK\x06\x07",
        ];
        let mut bytes = original.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(40)).min(bytes.len());
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.below(256) as u8,
                2 => {
                    let number = NUMBERS[self.below(NUMBERS.len())];
                    let end = (at + number.len()).min(bytes.len());
                    bytes[at..end].copy_from_slice(&number[..end - at]);
                }
                3 if end - at < bytes.len() => drop(bytes.drain(at..end)),
                4 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                _ => bytes.insert(at, self.below(256) as u8),
            }
        }
        bytes
    }
}

/// Names and bytes as the `zip` crate sees them, which shares no code with our walk.
fn seen_by_zip_crate(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        files.push((file.name().unwrap().into_owned(), bytes));
    }
    files
}

/// Archives that were changed at random, and what they were made from.
pub(crate) fn random_mutants() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let mut chance = Chance(0x5eed_0f5e_ed5e_ed01);
    let seeds = archives();
    (0..RANDOM_MUTANTS).map(move |number| {
        let (what, original) = &seeds[number % seeds.len()];
        (*what, chance.mutate(original))
    })
}

#[test]
fn random_mutants_are_rejected_or_read_the_same_by_another_reader() {
    let mut accepted = 0;
    for (number, (what, mutant)) in random_mutants().enumerate() {
        let Ok(package) = read(&mutant) else { continue };
        accepted += 1;
        let seen = seen_by_zip_crate(&mutant);
        for (path, bytes) in bytes_of(&package) {
            // A wrapper directory and a leading `./` are taken away.
            let same = |(name, other): &(String, Vec<u8>)| name.ends_with(path) && other == bytes;
            assert!(
                seen.iter().any(same),
                "{what}, mutant {number}: {path} is not what the zip crate sees"
            );
        }
    }
    println!("{RANDOM_MUTANTS} random mutants, {accepted} accepted");
    assert!(accepted > 100, "only {accepted} accepted: the mutants are too wild to say anything");
}

#[test]
fn replaced_bytes_of_skill_md_never_panic() {
    let text = SKILL_FILES[1].as_bytes();
    for at in 0..text.len() {
        for byte in 0..=u8::MAX {
            let mut mutant = text.to_vec();
            mutant[at] = byte;
            read_skill_file(mutant);
        }
    }
}

#[test]
fn random_mutants_of_skill_md_never_panic() {
    let mut chance = Chance(0x5eed_0f5e_ed5e_ed02);
    for number in 0..RANDOM_MUTANTS {
        read_skill_file(chance.mutate(SKILL_FILES[number % SKILL_FILES.len()].as_bytes()));
    }
}

#[track_caller]
fn read_skill_file(bytes: Vec<u8>) {
    if let Err(error) =
        skill::read_parts(vec![("SKILL.md".to_owned(), bytes)], &skill::PackageLimits::default())
    {
        assert_eq!(error.slug(), "invalid_skill");
    }
}
