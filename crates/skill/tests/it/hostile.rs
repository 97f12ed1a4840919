//! Archives that no honest tool makes. Each is refused for its own reason.

use skill::{Limits, read_archive};

use crate::support::*;

#[track_caller]
fn refused(archive: &[u8], slug: &str) {
    let error = read(archive).expect_err("accepted");
    assert_eq!(error.slug(), slug, "{error}");
    assert_eq!(error.is_hostile(), !matches!(slug, "invalid_skill" | "too_large"), "{error}");
    assert_eq!(error.too_large(), slug == "too_large", "{error}");
}

#[test]
fn paths_that_leave_the_skill() {
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
        "nul\0l",
        "line\nfeed",
        "\u{1b}[2J",
        "",
        &"n".repeat(300),
        &deep,
    ] {
        refused(&skill_with([stored(name, b"x")]), "unsafe_path");
    }
    refused(&skill_with([entry(b"\xff\xfe", b"x", STORED, b"x".to_vec())]), "unsafe_path");
    refused(&skill_with([stored("../", b"").with(|entry| entry.mode = 0o040_755)]), "unsafe_path");
}

#[test]
fn links_and_special_files() {
    let typed = |mode| skill_with([stored("x", b"/etc/passwd").with(|entry| entry.mode = mode)]);
    refused(&typed(0o120_777), "link_entry");
    for mode in [0o010_644, 0o020_644, 0o060_644, 0o140_644, 0o110_644, 0o170_644] {
        refused(&typed(mode), "special_file");
    }
    // A file that claims to be a directory, a directory that claims to be a file, and one with content.
    refused(&typed(0o040_755), "header_mismatch");
    refused(&skill_with([stored("d/", b"")]), "header_mismatch");
    refused(&skill_with([stored("d/", b"hidden").with(|entry| entry.mode = 0o040_755)]), "header_mismatch");
    // The link type counts whatever system the archive says it comes from.
    let foreign = stored("x", b"y").with(|entry| (entry.made_by, entry.mode) = (20, 0o120_777));
    refused(&skill_with([foreign]), "link_entry");
}

#[test]
fn names_that_collide() {
    for pair in [["a", "a"], ["a", "A"], ["main.py", "MAIN.PY"], ["a", "a/b"], ["a/b", "a"], ["d/x", "D/y"], ["ß", "ß"]]
    {
        let entries = pair.map(|name| stored(name, b"x"));
        refused(&skill_with(entries), "duplicate_entry");
    }
    refused(&skill_with([stored("skill.md", b"x")]), "duplicate_entry");
    refused(&skill_with([stored("./x", b"1"), stored("x", b"2")]), "duplicate_entry");
    let directory = || stored("d/", b"").with(|entry| entry.mode = 0o040_755);
    refused(&skill_with([directory(), directory()]), "duplicate_entry");
}

#[test]
fn too_much_of_anything() {
    let zeros = vec![0; 2 << 20];
    refused(&skill_with([deflated("bomb", &zeros)]), "zip_bomb");

    // A megabyte of zeros is nobody's problem, but two times three quarters are.
    let small = vec![0; 768 << 10];
    assert!(read(&skill_with([deflated("one", &small)])).is_ok());
    refused(&skill_with([deflated("one", &small), deflated("two", &small)]), "zip_bomb");

    let many: Vec<_> = (0..2_000).map(|number| stored(&format!("f{number}"), b"")).collect();
    assert!(read(&skill_with(many[..1_999].iter().cloned())).is_ok());
    refused(&skill_with(many), "too_many_entries");

    let limits = Limits { unpacked_bytes: 1_000, ..Limits::default() };
    let half = vec![b'x'; 500];
    let error = read_archive(&skill_with([stored("a", &half), stored("b", &half)]), &limits).unwrap_err();
    assert_eq!(error.slug(), "too_large");
    assert!(error.too_large() && !error.is_hostile());

    let long = format!("{SKILL_MD}{}", "long ".repeat(300_000));
    refused(&zip(&[stored("SKILL.md", long.as_bytes())]), "invalid_skill");
}

/// Sizes that lie: the announced size is what is checked against the limits, so it has to be the true one.
#[test]
fn content_that_is_not_as_announced() {
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
    let hidden_in_directory = entry(b"d/", b"", DEFLATED, b"\x03\0hidden".to_vec()).with(|entry| entry.mode = 0);
    refused(&skill_with([hidden_in_directory]), "header_mismatch");
    // Wrong checksum, garbage instead of a stream: damage, not malice.
    refused(&skill_with([deflated("x", text).both(|header| header.crc ^= 1)]), "invalid_skill");
    refused(&skill_with([entry(b"x", text, DEFLATED, b"\xff\xff\xff".to_vec())]), "invalid_skill");
}

#[test]
fn local_headers_that_contradict_the_directory() {
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
    refused(&skill_with([main().streamed(true).with(|entry| entry.after[5] ^= 1)]), "header_mismatch");
    refused(&skill_with([main().streamed(true).with(|entry| entry.after.clear())]), "header_mismatch");
    refused(&skill_with([main().with(|entry| entry.local.size = 0)]), "header_mismatch");
}

#[test]
fn methods_and_encryption() {
    for method in [1, 6, 9, 12, 14, 93, 95, 97, 98, 65_535] {
        refused(&skill_with([stored("x", b"y").both(|header| header.method = method)]), "unsupported_method");
    }
    refused(&skill_with([stored("x", b"y").both(|header| header.flags |= 1 << 5)]), "unsupported_method");
    for bit in [0, 6, 13] {
        refused(&skill_with([stored("x", b"y").both(|header| header.flags |= 1 << bit)]), "encrypted_entry");
    }
    refused(&skill_with([stored("x", b"y").both(|header| (header.flags, header.method) = (1, 99))]), "encrypted_entry");
}

#[test]
fn bytes_that_belong_to_nobody() {
    let honest = skill_with([stored("x", b"y")]);
    refused(&[b"prepended", honest.as_slice()].concat(), "trailing_data");
    refused(&[honest.as_slice(), b"appended"].concat(), "trailing_data");
    refused(&[honest.as_slice(), honest.as_slice()].concat(), "trailing_data");
    refused(&skill_with([stored("x", b"y").with(|entry| entry.after = b"gap".to_vec())]), "trailing_data");
    let twice = zip_with(&[stored("SKILL.md", SKILL_MD.as_bytes())], b"PK\x05\x06", 1);
    refused(&twice, "trailing_data");

    // Prepended, with the offsets set right, so that only the gap at the front tells.
    let first = stored("SKILL.md", SKILL_MD.as_bytes());
    let shifted = [b"MZ-stub".to_vec(), zip(&[first.clone().with(|entry| entry.offset = Some(7))])].concat();
    let mut shifted = shifted;
    let start_at = shifted.len() - 6;
    let start = u32::from_le_bytes(shifted[start_at..start_at + 4].try_into().unwrap()) + 7;
    shifted[start_at..start_at + 4].copy_from_slice(&start.to_le_bytes());
    refused(&shifted, "trailing_data");

    // One entry more in the directory than the end record counts.
    refused(&zip_with(&[first, stored("x", b"y")], b"", 1), "trailing_data");
}

#[test]
fn entries_that_overlap() {
    // Two directory entries for one local header.
    let twin = stored("a", b"x").with(|entry| entry.offset = Some(0));
    refused(&zip(&[stored("SKILL.md", SKILL_MD.as_bytes()), twin]), "overlapping_entries");

    // A file that contains another file's local header (the quoted overlap of a "better zip bomb").
    let inner = zip(&[stored("inner", b"secret")]);
    let inner_local = &inner[..30 + 5 + 6];
    let outer = stored("outer", inner_local);
    let mut archive = zip(&[stored("SKILL.md", SKILL_MD.as_bytes()), outer.clone(), stored("inner", b"secret")]);
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
fn what_is_no_zip_or_none_that_we_read() {
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
    refused(&skill_with([stored("x", b"y").with(|entry| zip64_extra(&mut entry.local))]), "invalid_skill");
    refused(&skill_with([stored("x", b"y").both(|header| header.size = u32::MAX)]), "invalid_skill");
    refused(&skill_with([stored("x", b"y").with(|entry| entry.offset = Some(u32::MAX))]), "invalid_skill");
    refused(&skill_with([stored("x", b"y").both(|header| header.extra = b"UT\xff\xff".to_vec())]), "invalid_skill");
    let mut counted = zip(&[stored("SKILL.md", SKILL_MD.as_bytes())]);
    let end = counted.len() - 22;
    counted[end + 4] = 1;
    refused(&counted, "invalid_skill");
    refused(&zip_with(&[stored("SKILL.md", SKILL_MD.as_bytes())], b"", 1_000), "invalid_skill");
}

/// Messages quote names from the archive, so they must not carry what a terminal obeys.
#[test]
fn messages_are_short_and_printable() {
    let name = format!("\u{1b}[2J{}", "x".repeat(5_000));
    let message = read(&skill_with([stored(&name, b"")])).unwrap_err().to_string();
    assert!(!message.contains(char::is_control), "{message}");
    assert!(message.len() < 400, "{message}");
}
