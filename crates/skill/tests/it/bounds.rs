//! What the worst archives cost: memory is held to a bound, time is printed.

use std::time::Instant;

use crate::hostile::{MOST_MEMORY, refused};
use crate::support::*;

/// Content that is packed almost as strongly as is allowed.
fn compressible(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|at| if at % 64 == 0 { byte() } else { 0 }).collect()
}

/// Six times the same sixteen megabytes: just below what a skill may unpack to.
fn large() -> Vec<Entry> {
    let content = compressible(16 << 20);
    let first = deflated("0", &content);
    assert!(first.data.len() * 100 > content.len(), "packed too well: {}", first.data.len());
    let named = |number: u8| first.clone().both(|header| header.name = vec![b'0' + number]);
    (0..6).map(named).collect()
}

/// Archives that take as long as they can to be refused.
fn worst() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let large = large();
    let mut broken_at_the_end = large.clone();
    broken_at_the_end[5] = broken_at_the_end[5].clone().both(|header| header.crc ^= 1);
    let beside = |documents: &[(&str, &str)]| {
        let documents = documents.iter().map(|(name, text)| stored(name, text.as_bytes()));
        zip(&large.iter().cloned().chain(documents).collect::<Vec<_>>())
    };
    let skillware = "class A:\n    def execute(self, params):\n        return 1\n";
    let too_long = format!("{skillware}{}", "# long\n".repeat(1 << 19));
    let mut stored_large: Vec<_> =
        (0..3).map(|number| stored(&number.to_string(), &vec![b'x'; 16 << 20])).collect();
    stored_large[2] = stored_large[2].clone().both(|header| header.crc ^= 1);

    let deep = |number: usize| format!("{number:04}{}", "é\u{323}ß/aaaaaaaaa".repeat(30));
    let mut names: Vec<_> = (0..1_998).map(|number| stored(&deep(number), b"")).collect();
    names.push(stored(&deep(0).to_uppercase(), b""));

    let kernel = deflated("kernel", &vec![0; 1 << 20]);
    let overlapping = |number: usize| {
        let name = format!("f{number}").into_bytes();
        kernel.clone().with(|entry| {
            (entry.central.name, entry.data, entry.offset) = (name, Vec::new(), Some(0))
        })
    };
    let overlap: Vec<_> = [kernel.clone()].into_iter().chain((1..1_999).map(overlapping)).collect();

    let lying = deflated("x", &compressible(90 << 20)).both(|header| header.size = 1 << 20);
    let fields = |number: usize| {
        stored(&format!("f{number}"), b"")
            .with(|entry| entry.central.extra = [9, 9, 0, 0].repeat(16_000))
    };
    let mut with_fields: Vec<_> = (0..700).map(fields).collect();
    with_fields.push(stored("f0", b""));
    let endless = entry(b"x", b"y", DEFLATED, b"\0\0\0\xff\xff".repeat(8 << 20));
    vec![
        ("96 MiB, the last checksum wrong", skill_with(broken_at_the_end), "invalid_skill"),
        (
            "96 MiB beside a SKILL.md that is none",
            beside(&[("SKILL.md", "---\nname: [\n---\n")]),
            "invalid_skill",
        ),
        (
            "… without a description",
            beside(&[("SKILL.md", "---\nname: demo\n---\n")]),
            "invalid_skill",
        ),
        (
            "… with a bad name",
            beside(&[("SKILL.md", "---\nname: a b\ndescription: x\n---\n")]),
            "invalid_skill",
        ),
        (
            "… with a bad version",
            beside(&[("SKILL.md", "---\nname: demo\ndescription: x\nversion: one\n---\n")]),
            "invalid_skill",
        ),
        (
            "… with a broken sidecar",
            beside(&[("SKILL.md", SKILL_MD), ("skillsandbox.yaml", "resources: [\n")]),
            "invalid_skill",
        ),
        (
            "… with a wrong sidecar",
            beside(&[
                ("SKILL.md", SKILL_MD),
                ("skillsandbox.yaml", "resources: {memory_mb: much}\n"),
            ]),
            "invalid_skill",
        ),
        (
            "96 MiB beside a sidecar without a name",
            beside(&[("skillsandbox.yaml", "skill: {}\n")]),
            "invalid_skill",
        ),
        (
            "96 MiB beside a Skillware manifest without a name",
            beside(&[("manifest.yaml", "description: x\n"), ("skill.py", skillware)]),
            "invalid_skill",
        ),
        (
            "96 MiB beside a Skillware manifest that is too long",
            beside(&[("manifest.yaml", &"# long\n".repeat(10_000)), ("skill.py", skillware)]),
            "invalid_skill",
        ),
        (
            "96 MiB beside code that is too long for a skill",
            beside(&[("manifest.yaml", "name: x\ndescription: x\n"), ("skill.py", &too_long)]),
            "invalid_skill",
        ),
        ("48 MiB stored, the last checksum wrong", skill_with(stored_large), "invalid_skill"),
        ("2,000 long, deep, composed names and a twin", skill_with(names), "duplicate_entry"),
        ("2,000 entries over one megabyte", skill_with(overlap), "overlapping_entries"),
        ("one megabyte announced, ninety packed", skill_with([lying]), "header_mismatch"),
        ("eleven million extra fields and a twin", skill_with(with_fields), "duplicate_entry"),
        ("eight million empty blocks", skill_with([endless]), "header_mismatch"),
        ("200 MiB of zeros", skill_with([deflated("x", &vec![0; 200 << 20])]), "zip_bomb"),
    ]
}

#[test]
fn worst_case_archives_are_rejected_within_time_and_memory_limits() {
    for (what, archive, slug) in worst() {
        let start = Instant::now();
        // Holds the refusal to its bound of memory.
        refused(&archive, slug);
        println!("{:>6} ms for {what} ({} KiB)", start.elapsed().as_millis(), archive.len() >> 10);
    }
}

/// The bound is one that can be missed: what is accepted takes as much as it unpacks to.
#[test]
fn accepted_packages_take_the_memory_of_one_copy() {
    let archive = skill_with(large());
    let (package, peak) = crate::memory::peak_of(|| read(&archive).unwrap());
    let unpacked: usize = package.files.iter().map(|file| file.bytes.len()).sum();
    assert!(peak > MOST_MEMORY && peak < unpacked + (4 << 20), "{peak} bytes for {unpacked}");
}
