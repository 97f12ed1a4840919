//! A small archive, cut at every byte and flipped in every bit: never a panic, never other content.

use skill::Package;

use crate::support::*;

fn original() -> Vec<u8> {
    zip(&[
        deflated("SKILL.md", SKILL_MD.as_bytes()),
        stored("main.py", MAIN_PY.as_bytes()),
        deflated("data/größe.txt", &b"some content ".repeat(20)).streamed(true),
        stored("data/", b"").with(|entry| entry.mode = 0o040_755),
    ])
}

#[test]
fn a_cut_archive_is_never_accepted() {
    let archive = original();
    assert!(read(&archive).is_ok());
    for len in 0..archive.len() {
        let error = read(&archive[..len]).expect_err("accepted");
        assert!(!error.to_string().is_empty(), "cut at {len}");
    }
    for start in 1..archive.len() {
        assert!(read(&archive[start..]).is_err(), "starting at {start}");
    }
}

/// Paths and bytes; the executable bit may change with a mode.
fn bytes_of(package: &Package) -> Vec<(&str, &[u8])> {
    let file = |(path, bytes, _)| (path, bytes);
    contents(package).into_iter().map(file).collect()
}

#[test]
fn a_flipped_bit_is_noticed_or_does_not_matter() {
    let archive = original();
    let honest = read(&archive).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for at in 0..archive.len() {
        for change in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff] {
            let mut mutant = archive.clone();
            mutant[at] ^= change;
            match read(&mutant) {
                Ok(package) => {
                    assert_eq!(bytes_of(&package), bytes_of(&honest), "byte {at} ^ {change:#x}");
                    accepted += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    // Times, versions and modes may change freely; names, sizes and contents may not.
    assert!(refused > 4 * accepted, "{refused} refused, {accepted} accepted");
}

#[test]
fn a_replaced_byte_of_skill_md_is_read_or_refused_but_never_a_panic() {
    let text = b"---\nname: demo\ndescription: \"A: b\"\nmetadata: {a: [1, 'x']}\ntimeout: 1m\n---\nBody\n";
    for at in 0..text.len() {
        for byte in 0..=u8::MAX {
            let mut mutant = text.to_vec();
            mutant[at] = byte;
            if let Err(error) = skill::read_parts(vec![("SKILL.md".to_owned(), mutant)], &skill::Limits::default()) {
                assert_eq!(error.slug(), "invalid_skill", "{at} {byte:#x}");
            }
        }
    }
}
