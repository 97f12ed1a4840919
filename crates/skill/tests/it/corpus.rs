//! Honest archives and files in all their variety: what mutants are made from, here and in the fuzz
//! target.

use crate::support::*;

/// Archives that are accepted, small and each with something of its own.
pub(crate) fn archives() -> Vec<(&'static str, Vec<u8>)> {
    let directory = |name: &str| stored(name, b"").with(|entry| entry.mode = 0o040_755);
    let noisy = deflated("main.py", MAIN_PY.as_bytes()).with(|entry| {
        entry.local.extra =
            [extra(0x5455, b"\x03abcdefgh"), extra(0x7875, b"\x01\x04aaaa\x04aaaa")].concat();
        entry.central.extra = extra(0x5455, b"\x03abcd");
        entry.comment = b"a comment".to_vec();
    });
    let skill = || stored("SKILL.md", SKILL_MD.as_bytes());
    vec![
        ("plain", zip(&[skill()])),
        (
            "mixed",
            zip(&[
                deflated("SKILL.md", SKILL_MD.as_bytes()),
                stored("main.py", MAIN_PY.as_bytes()),
                deflated("data/größe.txt", &b"some content ".repeat(20)).streamed(true),
                directory("data/"),
            ]),
        ),
        ("noisy", zip_with(&[skill(), noisy], b"comment", 2)),
        (
            "wrapper",
            zip(&[
                directory("demo/"),
                stored("demo/SKILL.md", SKILL_MD.as_bytes()),
                stored("demo/x", b""),
            ]),
        ),
        (
            "junk",
            zip(&[skill(), deflated("__MACOSX/._SKILL.md", b"junk"), stored(".DS_Store", b"junk")]),
        ),
        (
            "streamed",
            zip(&[
                skill().streamed(true),
                deflated("a", b"aaaaaaaa").streamed(false),
                stored("b", b""),
            ]),
        ),
        (
            "named twice",
            zip(&[
                skill(),
                stored("größe", b"x").with(|entry| {
                    entry.local.extra = second_name("größe", "größe");
                    entry.central.extra = second_name("größe", "größe");
                    entry.made_by = 20;
                }),
            ]),
        ),
        (
            "modes",
            zip(&[
                skill(),
                stored("x", b"y").with(|entry| {
                    (entry.mode, entry.central.extra) = (0, asi_unix(0o100_755, b""))
                }),
            ]),
        ),
    ]
}

/// Texts of `SKILL.md`, good and bad.
pub(crate) const SKILL_FILES: &[&str] = &[
    SKILL_MD,
    "---\nname: demo\ndescription: \"A: b\"\nmetadata: {a: [1, 'x']}\ntimeout: 1m\n---\nBody\n",
    "\u{feff}---\r\nname: demo\r\ndescription: Use: it, when\r\nversion: 1.2.3-rc.1\r\n---\r\n# Body\r\n",
    "---\nname: demo\ndescription: |\n  folded\n  text\nallowed-tools: [Read, Write]\nlicense: MIT\n---\n",
    "---\nname: demo\ndescription: x\nresources: {memory: 256Mi, cpu: \"0.5\"}\npermissions:\n  network:\n    egress:\n      - {domain: a.example, ports: [443]}\n---\nx\n",
    "---\nname: demo\ndescription: x\ninput_schema: {type: object, properties: {a: {type: string}}}\nentrypoint: main.py\nlang: python\n---\n",
    "---\na: &a [x]\nb: *a\n---\n",
    "---\nname: demo\nname: twice\ndescription: !!str x\n---\n",
];
