//! Archives that honest tools make, in all their variety.

use crate::support::*;

#[test]
fn a_plain_zip_is_read() {
    let package = read(&skill_with([deflated("main.py", MAIN_PY.as_bytes())])).unwrap();
    assert_eq!(package.manifest.name, "demo");
    assert_eq!(package.manifest.instructions, "# Demo");
    assert_eq!(package.entrypoint.as_ref().unwrap().path, "main.py");
    assert_eq!(
        contents(&package),
        [("SKILL.md", SKILL_MD.as_bytes(), false), ("main.py", MAIN_PY.as_bytes(), false)]
    );
    assert_eq!(package.findings, []);
}

#[test]
fn digest_does_not_depend_on_how_the_files_are_packed() {
    let (skill, main) = (SKILL_MD.as_bytes(), MAIN_PY.as_bytes());
    let reference = read(&zip(&[stored("SKILL.md", skill), stored("main.py", main)])).unwrap();
    let directory = |name: &str| stored(name, b"").with(|entry| entry.mode = 0o040_755);
    let foreign = |entry: Entry| entry.with(|entry| (entry.made_by, entry.mode) = (20, 0));
    let noisy = |entry: Entry| {
        entry.with(|entry| {
            entry.local.time = 1;
            entry.central.time = 2;
            entry.local.extra = b"UT\x09\0\x03abcdefgh".to_vec();
            entry.central.extra = b"UT\x05\0\x03abcd\0\0".to_vec();
            entry.comment = b"a comment".to_vec();
        })
    };
    let empty_deflated = deflated("d/", b"").with(|entry| entry.mode = 0o040_755);
    let macos = stored("__MACOSX/._main.py", b"junk");
    for (what, archive) in [
        ("deflated", zip(&[deflated("SKILL.md", skill), deflated("main.py", main)])),
        ("reversed", zip(&[stored("main.py", main), stored("SKILL.md", skill)])),
        (
            "descriptor",
            zip(&[
                deflated("SKILL.md", skill).streamed(true),
                stored("main.py", main).streamed(true),
            ]),
        ),
        (
            "bare descriptor",
            zip(&[deflated("SKILL.md", skill).streamed(false), deflated("main.py", main)]),
        ),
        ("no modes", zip(&[foreign(stored("SKILL.md", skill)), foreign(stored("main.py", main))])),
        ("noise", zip(&[noisy(stored("SKILL.md", skill)), noisy(deflated("main.py", main))])),
        (
            "archive comment",
            zip_with(&[stored("SKILL.md", skill), stored("main.py", main)], b"9c1f0a", 2),
        ),
        (
            "dot slash",
            zip(&[directory("./"), stored("./SKILL.md", skill), stored("./main.py", main)]),
        ),
        (
            "empty directory",
            zip(&[directory("d/"), stored("SKILL.md", skill), stored("main.py", main)]),
        ),
        (
            "deflated directory",
            zip(&[empty_deflated, stored("SKILL.md", skill), stored("main.py", main)]),
        ),
        (
            "wrapper",
            zip(&[
                directory("demo/"),
                stored("demo/SKILL.md", skill),
                stored("demo/main.py", main),
            ]),
        ),
        (
            "wrapper and junk",
            zip(&[macos, stored("demo/SKILL.md", skill), stored("demo/main.py", main)]),
        ),
        (
            "junk",
            zip(&[
                stored("SKILL.md", skill),
                stored(".DS_Store", b"x"),
                stored("main.py", main),
                stored("a/Thumbs.db", b"x"),
            ]),
        ),
        (
            "level flags",
            zip(&[stored("SKILL.md", skill).with(|e| e.local.flags |= 2), stored("main.py", main)]),
        ),
    ] {
        let package = read(&archive).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(package.digest, reference.digest, "{what}");
        assert_eq!(contents(&package), contents(&reference), "{what}");
    }
}

#[test]
fn modes_become_one_executable_bit() {
    let file = |name: &str, mode, text: &str| {
        stored(name, text.as_bytes()).with(|entry| entry.mode = mode)
    };
    let package = read(&skill_with([
        file("a", 0o100_755, ""),
        file("b", 0o100_600, "#!/bin/sh\n"),
        file("c", 0o104_711, ""),
        file("d", 0o755, ""),
        file("e", 0, "#!/bin/sh\n"),
        file("f", 0o100_755, "").with(|entry| entry.made_by = 20),
    ]))
    .unwrap();
    let executable: Vec<_> = package.files.iter().filter(|file| file.executable).collect();
    let executable: Vec<_> = executable.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(executable, ["a", "c", "d", "e"]);
}

#[test]
fn non_ascii_names_must_decode_the_same_in_every_reader() {
    let name = "größe.txt";
    let from = |host: u16, entry: Entry| entry.with(|entry| entry.made_by = host << 8 | 20);
    let unmarked = || stored(name, b"x").both(|header| header.flags = 0);
    let named = |entry: Entry, second: &str| {
        let own = String::from_utf8_lossy(&entry.local.name).into_owned();
        entry.both(|header| header.extra.extend(second_name(second, &own)))
    };
    let plain = || stored("plain", b"x");
    let in_local = plain().with(|entry| entry.local.extra = second_name("other", "plain"));
    let in_central = plain().with(|entry| entry.central.extra = second_name("other", "plain"));
    for (number, (entry, slug)) in [
        (stored(name, b"x"), None),
        (named(stored(name, b"x"), name), None),
        (unmarked(), Some("invalid_skill")),
        (named(unmarked(), name), Some("invalid_skill")),
        (named(plain(), "other"), Some("header_mismatch")),
        (in_local, Some("header_mismatch")),
        (in_central, Some("header_mismatch")),
        // Of two second names, some readers take the first and some the last.
        (named(named(plain(), "other"), "plain"), Some("header_mismatch")),
        (named(named(plain(), "plain"), "other"), Some("header_mismatch")),
        // Info-ZIP takes such a name to be in a code page of DOS or OS/2, mark or no mark, unless
        // it is repeated.
        (from(0, stored(name, b"x")), Some("invalid_skill")),
        (from(6, stored(name, b"x")), Some("invalid_skill")),
        (from(0, named(stored(name, b"x"), name)), None),
        (from(10, stored(name, b"x")), None),
        (from(0, plain()), None),
    ]
    .into_iter()
    .enumerate()
    {
        let result = read(&skill_with([entry]));
        assert_eq!(result.as_ref().err().map(|error| error.slug()), slug, "case {number}");
        if let Ok(package) = result {
            assert!([name, "plain"].contains(&package.files[1].path.as_str()), "case {number}");
        }
    }
}

#[test]
fn skill_md_is_found_in_any_case_at_the_root_or_in_the_wrapper() {
    for (paths, found) in [
        (&["SKILL.md"][..], true),
        (&["skill.md", "x"], true),
        (&["Skill.MD"], true),
        (&["w/skill.md", "w/x/y"], true),
        (&["SKILL.md", "sub/SKILL.md"], true),
        (&["w/SKILL.md", "x"], false),
        (&["w/v/SKILL.md"], false),
        (&["SKILL.md.txt"], false),
        (&["__MACOSX/SKILL.md"], false),
        (&[], false),
    ] {
        let entries: Vec<_> = paths.iter().map(|path| stored(path, SKILL_MD.as_bytes())).collect();
        match read(&zip(&entries)) {
            Ok(package) => assert!(found, "{paths:?} gave {:?}", package.manifest.name),
            Err(error) => {
                assert!(!found, "{paths:?}: {error}");
                assert_eq!(error.slug(), "invalid_skill");
                assert!(error.to_string().contains("SKILL.md"), "{error}");
            }
        }
    }
}
