//! Other people's zip tools: what they pack we read, and what we accept they read alike.
//!
//! Tools that this machine does not have are passed over, and the test says so.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use skill::{Limits, Package, read_directory};
use tempfile::TempDir;

use crate::support::*;

/// Lists every archive given as a line of hexadecimal: names, sizes and checksums as Python sees them.
const PYTHON_LIST: &str = "
import io, sys, zipfile, zlib
for line in sys.stdin:
    archive = zipfile.ZipFile(io.BytesIO(bytes.fromhex(line)))
    for name in sorted(archive.namelist(), key=str.encode):
        if not name.endswith('/'):
            data = archive.read(name)
            print(name.encode().hex(), len(data), zlib.crc32(data))
    print('end')
";

/// Packs the files named to standard output, which is a pipe, or through memory, where the packer can seek.
const PYTHON_PACK: &str = "
import io, sys, zipfile
how, *names = sys.argv[1:]
out = io.BytesIO() if how == 'seek' else sys.stdout.buffer
with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as archive:
    for name in names:
        archive.write(name)
if how == 'seek':
    sys.stdout.buffer.write(out.getvalue())
";

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    let found = command.arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("passed over: there is no {program} here");
    }
    found
}

fn run(program: &str, args: &[&str], dir: &Path, input: String) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} failed");
    writer.join().unwrap().unwrap();
    output.stdout
}

/// A skill of three files, the third with this name.
fn skill_dir(name: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("scripts")).unwrap();
    fs::write(dir.path().join("SKILL.md"), SKILL_MD).unwrap();
    fs::write(dir.path().join("scripts/main.py"), MAIN_PY.repeat(50)).unwrap();
    fs::write(dir.path().join(name), "text").unwrap();
    dir
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The package as `PYTHON_LIST` would show it.
fn listed(package: &Package) -> String {
    let line =
        |(path, bytes, _): (&str, &[u8], bool)| format!("{} {} {}\n", hex(path.as_bytes()), bytes.len(), crc(bytes));
    contents(package).into_iter().map(line).collect::<String>() + "end\n"
}

#[test]
fn what_python_packs_has_the_digest_of_the_directory() {
    if !has("python3") {
        return;
    }
    let dir = skill_dir("größe.txt");
    let expected = read_directory(dir.path(), &Limits::default()).unwrap();
    for how in ["seek", "stream"] {
        let args = ["-c", PYTHON_PACK, how, "größe.txt", "SKILL.md", "scripts/main.py"];
        let packed = run("python3", &args, dir.path(), String::new());
        assert_eq!(read(&packed).unwrap().digest, expected.digest, "{how}");
    }
}

#[test]
fn what_info_zip_packs_has_the_digest_of_the_directory() {
    if !has("zip") {
        return;
    }
    let dir = skill_dir("plain text.txt");
    let expected = read_directory(dir.path(), &Limits::default()).unwrap();
    let streamed = run("zip", &["-q", "-r", "-", "."], dir.path(), String::new());
    assert_eq!(read(&streamed).unwrap().digest, expected.digest);

    let out = TempDir::new().unwrap();
    let path = out.path().join("skill.zip");
    let args = ["-q", "-r", path.to_str().unwrap(), "."];
    run("zip", &args, dir.path(), String::new());
    assert_eq!(read(&fs::read(path).unwrap()).unwrap().digest, expected.digest);
}

#[test]
fn the_canonical_form_opens_everywhere() {
    let dir = skill_dir("größe.txt");
    let package = read_directory(dir.path(), &Limits::default()).unwrap();
    let out = TempDir::new().unwrap();
    if has("unzip") {
        fs::write(out.path().join("skill.zip"), &package.archive).unwrap();
        let args = ["-q", "skill.zip", "-d", "unzipped"];
        run("unzip", &args, out.path(), String::new());
        let again = read_directory(&out.path().join("unzipped"), &Limits::default()).unwrap();
        assert_eq!(again.digest, package.digest);
    }
    if has("python3") {
        let seen = run("python3", &["-c", PYTHON_LIST], out.path(), hex(&package.archive));
        assert_eq!(String::from_utf8(seen).unwrap(), listed(&package));
    }
}

/// Every mutant of a small archive that we accept, Python reads with the same names and bytes.
#[test]
fn python_sees_what_we_see() {
    if !has("python3") {
        return;
    }
    let original = zip(&[
        deflated("SKILL.md", SKILL_MD.as_bytes()),
        stored("größe.txt", b"text").streamed(true),
        stored("d/", b"").with(|entry| entry.mode = 0o040_755),
    ]);
    let (mut input, mut expected, mut accepted) = (String::new(), String::new(), 0);
    for at in 0..original.len() {
        for change in [0x00, 0x01, 0x10, 0x80, 0xff] {
            let mut mutant = original.clone();
            mutant[at] ^= change;
            if let Ok(package) = read(&mutant) {
                input += &(hex(&mutant) + "\n");
                expected += &listed(&package);
                accepted += 1;
            }
        }
    }
    assert!(accepted > original.len(), "only {accepted} were accepted");
    let seen = run("python3", &["-c", PYTHON_LIST], Path::new("/"), input);
    assert_eq!(String::from_utf8(seen).unwrap(), expected);
}
