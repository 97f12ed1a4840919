//! Archives that no honest tool makes. Each is refused for its own reason.

use skill::{PackageLimits, read_archive};

use crate::memory::peak_of;
use crate::support::*;

/// What any of these may cost beside the archive itself.
pub(crate) const MOST_MEMORY: usize = 64 << 20;

#[track_caller]
pub(crate) fn refused(archive: &[u8], slug: &str) {
    let (result, peak) = peak_of(|| read(archive));
    let error = result.expect_err("accepted");
    assert!(peak <= MOST_MEMORY, "{peak} bytes for {error}");
    assert_eq!(error.slug(), slug, "{error}");
    assert_eq!(error.is_hostile(), !matches!(slug, "invalid_skill" | "too_large"), "{error}");
    assert_eq!(error.is_too_large(), slug == "too_large", "{error}");
}

#[test]
fn unsafe_paths_are_rejected() {
    let deep = "d/".repeat(40) + "f";
    for name in [
        "../evil",
        "/etc/passwd",
        "a/../../evil",
        "..",
        "a/..",
        "..\\evil",
        "a\\..\\..\\evil",
        "C:\\evil",
        "C:/evil",
        "//host/x",
        "\\\\host\\x",
        "a//b",
        "a/./b",
        ".",
        "a/b/../../../evil",
        "./../evil",
        "a/../b",
        "a/.",
        "~/../x",
        "\\evil",
        "a\\b",
        "c:evil",
        "\\\\?\\C:\\evil",
        "/dev/null",
        "file\u{9c}",
        "tab\t",
        "del\u{7f}",
        "evil;1",
        "nul\0l",
        "line\nfeed",
        "\u{1b}[2J",
        "",
        &"n".repeat(300),
        &deep,
    ] {
        refused(&skill_with([stored(name, b"x")]), "unsafe_path");
    }
    // Invalid UTF-8, among it the overlong forms of a dot and a slash, and half of a surrogate
    // pair.
    for name in [
        &b"\xff\xfe"[..],
        b"\xc0\xae\xc0\xae/x",
        b"..\xc0\xafx",
        b"\xe0\x80\xae",
        b"\xed\xa0\x80",
        b"caf\xe9",
    ] {
        refused(&skill_with([entry(name, b"x", STORED, b"x".to_vec())]), "unsafe_path");
    }
    refused(&skill_with([stored("../", b"").with(|entry| entry.mode = 0o040_755)]), "unsafe_path");
}

#[test]
fn links_and_special_files() {
    let typed = |mode| skill_with([stored("x", b"/etc/passwd").with(|entry| entry.mode = mode)]);
    refused(&typed(0o120_777), "link_entry");
    for mode in [0o010_644, 0o020_644, 0o060_644, 0o140_644, 0o110_644, 0o170_644] {
        refused(&typed(mode), "special_file");
    }
    // A file that claims to be a directory, a directory that claims to be a file, and one with
    // content.
    refused(&typed(0o040_755), "header_mismatch");
    refused(&skill_with([stored("d/", b"")]), "header_mismatch");
    refused(
        &skill_with([stored("d/", b"hidden").with(|entry| entry.mode = 0o040_755)]),
        "header_mismatch",
    );
    // The link type counts whatever system the archive says it comes from.
    let foreign = stored("x", b"y").with(|entry| (entry.made_by, entry.mode) = (20, 0o120_777));
    refused(&skill_with([foreign]), "link_entry");
}

/// Where the header's own mode says nothing, Info-ZIP believes an extra field and makes the link.
#[test]
fn links_and_special_files_in_extra_fields_are_rejected() {
    let with_extra = |name: &str, mode, in_local: bool, field: Vec<u8>| {
        let change = |entry: &mut Entry| {
            entry.mode = mode;
            let header = if in_local { &mut entry.local } else { &mut entry.central };
            header.extra = field;
        };
        skill_with([stored(name, b"").with(change)])
    };
    for in_local in [true, false] {
        for mode in [0, 0o100_644] {
            let with = |name, field| with_extra(name, mode, in_local, field);
            refused(&with("x", asi_unix(0o120_777, b"/etc/passwd")), "link_entry");
            for kind in [0o010_644, 0o020_644, 0o060_644, 0o140_644] {
                refused(&with("x", asi_unix(kind, b"")), "special_file");
            }
            refused(&with("x", asi_unix(0o040_755, b"")), "header_mismatch");
            let two = [asi_unix(0o100_644, b""), asi_unix(0o100_755, b"")].concat();
            refused(&with("x", two), "header_mismatch");
            refused(&with("x", extra(0x756e, b"abc")), "invalid_skill");
            refused(
                &with("x", extra(0x000d, &[[0; 12].as_slice(), b"/etc/passwd"].concat())),
                "link_entry",
            );
            refused(&with("x", extra(0x9901, b"\x02\0AE\x03\x08\0")), "encrypted_entry");
            refused(&with("x", extra(0x0017, &[0; 8])), "encrypted_entry");
            // Times, owners and a mode that says the same are what honest tools write there.
            for harmless in [
                asi_unix(0o100_644, b""),
                extra(0x000d, &[0; 12]),
                extra(0x7875, b"\x01\x04aaaa\x04aaaa"),
            ] {
                assert!(read(&with("x", harmless)).is_ok());
            }
        }
        refused(&with_extra("d/", 0, in_local, asi_unix(0o100_644, b"")), "header_mismatch");
    }
    let dos = |name: &str, attributes| {
        stored(name, b"").with(|entry| (entry.dos, entry.mode) = (attributes, 0))
    };
    refused(&skill_with([dos("label", 0x08)]), "special_file");
    refused(&skill_with([dos("directory", 0x10)]), "header_mismatch");
    assert!(
        read(&skill_with([dos("d/", 0x10), dos("archive", 0x20), dos("read-only", 0x01)])).is_ok()
    );
}

#[test]
fn colliding_names_are_rejected() {
    for pair in [
        ["a", "a"],
        ["a", "A"],
        ["main.py", "MAIN.PY"],
        ["a", "a/b"],
        ["a/b", "a"],
        ["d/x", "D/y"],
        ["ß", "ß"],
        ["straße", "STRASSE"],
        ["caf\u{e9}", "cafe\u{301}"],
        ["CAF\u{c9}", "cafe\u{301}"],
        ["\u{212b}", "\u{e5}"],
        ["ſ", "S"],
        ["Σ", "ς"],
        ["ﬀ", "FF"],
        ["a\u{200b}b", "ab"],
        ["\u{e9}/x", "e\u{301}/y"],
    ] {
        let entries = pair.map(|name| stored(name, b"x"));
        refused(&skill_with(entries), "duplicate_entry");
    }
    refused(&skill_with([stored("skill.md", b"x")]), "duplicate_entry");
    refused(&skill_with([stored("./x", b"1"), stored("x", b"2")]), "duplicate_entry");
    let directory = || stored("d/", b"").with(|entry| entry.mode = 0o040_755);
    refused(&skill_with([directory(), directory()]), "duplicate_entry");
}

#[test]
fn size_limits_are_enforced() {
    let zeros = vec![0; 2 << 20];
    refused(&skill_with([deflated("bomb", &zeros)]), "zip_bomb");

    // A megabyte of zeros is nobody's problem, but two times three quarters are.
    let small = vec![0; 768 << 10];
    assert!(read(&skill_with([deflated("one", &small)])).is_ok());
    refused(&skill_with([deflated("one", &small), deflated("two", &small)]), "zip_bomb");

    let many: Vec<_> = (0..2_000).map(|number| stored(&format!("f{number}"), b"")).collect();
    assert!(read(&skill_with(many[..1_999].iter().cloned())).is_ok());
    refused(&skill_with(many), "too_many_entries");

    let limits = PackageLimits { unpacked_bytes: 1_000, ..PackageLimits::default() };
    let half = vec![b'x'; 500];
    let error =
        read_archive(&skill_with([stored("a", &half), stored("b", &half)]), &limits).unwrap_err();
    assert_eq!(error.slug(), "too_large");
    assert!(error.is_too_large() && !error.is_hostile());

    let long = format!("{SKILL_MD}{}", "long ".repeat(300_000));
    refused(&zip(&[stored("SKILL.md", long.as_bytes())]), "invalid_skill");
}

/// Sizes that lie: the announced size is what is checked against the limits, so it has to be the
/// true one.
#[test]
fn content_that_differs_from_its_header_is_rejected() {
    let text = b"some text that is long enough to be cut";
    let lying = |size: usize| deflated("x", text).both(|header| header.size = size as u32);
    for size in [0, 1, text.len() - 1, text.len() + 1, 1 << 16] {
        refused(&skill_with([lying(size)]), "header_mismatch");
    }
    refused(&skill_with([lying(90 << 20)]), "zip_bomb");
    // Bytes behind the end of the deflate stream are seen by nobody, so they may not be there.
    let hidden = deflated("x", text).with(|entry| {
        entry.data.extend(b"hidden");
        entry.local.packed_len += 6;
        entry.central.packed_len += 6;
    });
    refused(&skill_with([hidden]), "header_mismatch");
    let unequal = stored("x", text).both(|header| header.size -= 1);
    refused(&skill_with([unequal]), "header_mismatch");
    let hidden_in_directory =
        entry(b"d/", b"", DEFLATED, b"\x03\0hidden".to_vec()).with(|entry| entry.mode = 0);
    refused(&skill_with([hidden_in_directory]), "header_mismatch");
    // Wrong checksum, garbage instead of a stream: damage, not malice.
    refused(&skill_with([deflated("x", text).both(|header| header.crc ^= 1)]), "invalid_skill");
    refused(&skill_with([entry(b"x", text, DEFLATED, b"\xff\xff\xff".to_vec())]), "invalid_skill");
}

#[test]
fn local_headers_must_match_the_central_directory() {
    let main = || deflated("main.py", MAIN_PY.as_bytes());
    let changes: [fn(&mut Header); 7] = [
        |header| header.name = b"main.sh".to_vec(),
        |header| header.name = b"../ain.py".to_vec(),
        |header| header.method = STORED,
        |header| header.crc ^= 1,
        |header| header.size += 1,
        |header| header.packed_len -= 1,
        |header| header.flags |= 1 << 11,
    ];
    // A time or a version changes nothing of what is unpacked, and tools differ in what they write
    // there.
    for change in
        [|header: &mut Header| header.time += 1, |header: &mut Header| header.version += 1]
    {
        assert!(read(&skill_with([main().with(|entry| change(&mut entry.local))])).is_ok());
    }
    for (number, change) in changes.into_iter().enumerate() {
        let local = read(&skill_with([main().with(|entry| change(&mut entry.local))]));
        let central = read(&skill_with([main().with(|entry| change(&mut entry.central))]));
        for result in [local, central] {
            let error = result.expect_err("accepted");
            assert!(error.is_hostile(), "change {number}: {error}");
        }
    }
    refused(&skill_with([main().with(|entry| entry.local.flags |= 1 << 3)]), "header_mismatch");
    refused(&skill_with([main().with(|entry| entry.local.flags |= 1)]), "header_mismatch");
    refused(
        &skill_with([main().streamed(true).with(|entry| entry.after[5] ^= 1)]),
        "header_mismatch",
    );
    refused(
        &skill_with([main().streamed(true).with(|entry| entry.after.clear())]),
        "header_mismatch",
    );
    refused(&skill_with([main().with(|entry| entry.local.size = 0)]), "header_mismatch");
    // A reader that streams stored data takes the first descriptor it meets for the end.
    let early = stored("x", b"seen PK\x07\x08 unseen");
    assert!(read(&skill_with([early.clone()])).is_ok());
    refused(&skill_with([early.streamed(true)]), "header_mismatch");
    refused(&skill_with([main().both(|header| header.version = 64)]), "invalid_skill");
}

/// What is dropped is still unpacked by others, so it has to be as sound as the rest, and counts
/// like the rest.
#[test]
fn junk_files_are_validated_too() {
    let junk = |entry: Entry| skill_with([entry]);
    assert!(read(&junk(deflated("__MACOSX/._x", b"junk"))).is_ok());
    refused(
        &junk(deflated("__MACOSX/._x", b"junk").both(|header| header.crc ^= 1)),
        "invalid_skill",
    );
    refused(
        &junk(deflated("__MACOSX/._x", b"junk").both(|header| header.size += 1)),
        "header_mismatch",
    );
    refused(&junk(stored("__MACOSX/../x", b"junk")), "unsafe_path");
    refused(&junk(stored(".DS_Store", b"x").with(|entry| entry.mode = 0o120_777)), "link_entry");
    let limits = PackageLimits { unpacked_bytes: 1_000, ..PackageLimits::default() };
    let error = read_archive(&junk(stored("__MACOSX/x", &[b'x'; 1_000])), &limits).unwrap_err();
    assert_eq!(error.slug(), "too_large");
}

#[test]
fn unsupported_methods_and_encryption_are_rejected() {
    for method in [1, 6, 9, 12, 14, 93, 95, 97, 98, 65_535] {
        refused(
            &skill_with([stored("x", b"y").both(|header| header.method = method)]),
            "unsupported_method",
        );
    }
    refused(
        &skill_with([stored("x", b"y").both(|header| header.flags |= 1 << 5)]),
        "unsupported_method",
    );
    for bit in [0, 6, 13] {
        refused(
            &skill_with([stored("x", b"y").both(|header| header.flags |= 1 << bit)]),
            "encrypted_entry",
        );
    }
    refused(
        &skill_with([stored("x", b"y").both(|header| (header.flags, header.method) = (1, 99))]),
        "encrypted_entry",
    );
}

#[test]
fn stray_bytes_are_rejected() {
    let honest = skill_with([stored("x", b"y")]);
    refused(&[b"prepended", honest.as_slice()].concat(), "trailing_data");
    refused(&[honest.as_slice(), b"appended"].concat(), "trailing_data");
    refused(&[honest.as_slice(), honest.as_slice()].concat(), "trailing_data");
    refused(
        &skill_with([stored("x", b"y").with(|entry| entry.after = b"gap".to_vec())]),
        "trailing_data",
    );
    let twice = zip_with(&[stored("SKILL.md", SKILL_MD.as_bytes())], b"PK\x05\x06", 1);
    refused(&twice, "trailing_data");

    // Prepended, with the offsets set right, so that only the gap at the front tells.
    let first = stored("SKILL.md", SKILL_MD.as_bytes());
    let shifted =
        [b"MZ-stub".to_vec(), zip(&[first.clone().with(|entry| entry.offset = Some(7))])].concat();
    let mut shifted = shifted;
    let start_at = shifted.len() - 6;
    let start = u32::from_le_bytes(shifted[start_at..start_at + 4].try_into().unwrap()) + 7;
    shifted[start_at..start_at + 4].copy_from_slice(&start.to_le_bytes());
    refused(&shifted, "trailing_data");

    // One entry more in the directory than the end record counts.
    refused(&zip_with(&[first, stored("x", b"y")], b"", 1), "trailing_data");
}

#[test]
fn overlapping_entries_are_rejected() {
    // Two directory entries for one local header.
    let twin = stored("a", b"x").with(|entry| entry.offset = Some(0));
    refused(&zip(&[stored("SKILL.md", SKILL_MD.as_bytes()), twin]), "overlapping_entries");

    // A file that contains another file's local header (the quoted overlap of a "better zip bomb").
    let inner = zip(&[stored("inner", b"secret")]);
    let inner_local = &inner[..30 + 5 + 6];
    let outer = stored("outer", inner_local);
    let mut archive =
        zip(&[stored("SKILL.md", SKILL_MD.as_bytes()), outer.clone(), stored("inner", b"secret")]);
    assert!(read(&archive).is_ok());
    let inside = 30 + 8 + SKILL_MD.len() as u32 + 30 + 5;
    archive = zip(&[
        stored("SKILL.md", SKILL_MD.as_bytes()),
        outer,
        stored("inner", b"secret").with(|entry| entry.offset = Some(inside)),
    ]);
    refused(&archive, "overlapping_entries");

    // Data that runs into the directory.
    let reaching = stored("x", b"y").both(|header| (header.size, header.packed_len) = (50, 50));
    refused(&skill_with([reaching]), "overlapping_entries");
}

#[test]
fn invalid_and_unsupported_zips_are_rejected() {
    for bytes in [
        &b""[..],
        b"PK",
        b"hello",
        b"PK\x05\x06",
        &[0; 1_000],
        b"PK\x03\x04 and then nothing of a zip at all",
        b"\x1f\x8b\x08",
    ] {
        refused(bytes, "invalid_skill");
    }
    refused(&zip(&[]), "invalid_skill");
    let zip64_extra = |header: &mut Header| header.extra = b"\x01\0\x08\0aaaaaaaa".to_vec();
    refused(&skill_with([stored("x", b"y").both(zip64_extra)]), "invalid_skill");
    refused(
        &skill_with([stored("x", b"y").with(|entry| zip64_extra(&mut entry.local))]),
        "invalid_skill",
    );
    refused(
        &skill_with([stored("x", b"y").both(|header| header.size = u32::MAX)]),
        "invalid_skill",
    );
    refused(
        &skill_with([stored("x", b"y").with(|entry| entry.offset = Some(u32::MAX))]),
        "invalid_skill",
    );
    refused(
        &skill_with([stored("x", b"y").both(|header| header.extra = b"UT\xff\xff".to_vec())]),
        "invalid_skill",
    );
    refused(
        &skill_with([stored("x", b"y").both(|header| header.extra = b"\x01\0".to_vec())]),
        "invalid_skill",
    );
    zip64_in_disguise();
    let mut counted = zip(&[stored("SKILL.md", SKILL_MD.as_bytes())]);
    let end = counted.len() - 22;
    counted[end + 4] = 1;
    refused(&counted, "invalid_skill");
    refused(&zip_with(&[stored("SKILL.md", SKILL_MD.as_bytes())], b"", 1_000), "invalid_skill");
}

/// The 64-bit extension is not read, wherever it is announced; a reader that does would look
/// elsewhere for the entries.
fn zip64_in_disguise() {
    let honest = skill_with([stored("x", b"y")]);
    let end = honest.len() - 22;
    let locator = [b"PK\x06\x07".as_slice(), &[0; 16]].concat();
    let record = [b"PK\x06\x06".as_slice(), &44u64.to_le_bytes(), &[0; 44]].concat();
    let with = |middle: &[u8]| [&honest[..end], middle, &honest[end..]].concat();
    refused(&with(&locator), "invalid_skill");
    refused(&with(&[record.clone(), locator.clone()].concat()), "invalid_skill");
    refused(&with(&record), "trailing_data");
    let in_comment = stored("x", b"y").with(|entry| entry.comment = locator.clone());
    refused(&skill_with([in_comment]), "invalid_skill");
    let maximal = |at: usize, len: usize, slug: &str| {
        let mut archive = honest.clone();
        archive[end + at..end + at + len].fill(0xff);
        refused(&archive, slug);
    };
    maximal(8, 4, "too_many_entries");
    maximal(12, 4, "invalid_skill");
    maximal(16, 4, "invalid_skill");
    let field = |values: &[u64]| {
        extra(1, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    };
    for (change, values) in [
        ((|header| header.size = u32::MAX) as fn(&mut Header), &[1u64][..]),
        (|header| header.packed_len = u32::MAX, &[1]),
        (|header| (header.size, header.packed_len) = (u32::MAX, u32::MAX), &[1, 1]),
        (|_| {}, &[]),
    ] {
        let both = stored("x", b"y").both(change).both(|header| header.extra = field(values));
        refused(&skill_with([both]), "invalid_skill");
        let local = stored("x", b"y").with(|entry| change(&mut entry.local));
        refused(
            &skill_with([local.with(|entry| entry.local.extra = field(values))]),
            "invalid_skill",
        );
    }
}

/// Messages quote names from the archive, so they must not carry what a terminal obeys.
#[test]
fn messages_are_short_and_printable() {
    let name = format!("\u{1b}[2J{}", "x".repeat(5_000));
    let message = read(&skill_with([stored(&name, b"")])).unwrap_err().to_string();
    assert!(!message.contains(char::is_control), "{message}");
    assert!(message.len() < 400, "{message}");
}
