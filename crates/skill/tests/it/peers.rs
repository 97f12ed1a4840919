//! Other people's zip tools: what they pack we read, and what we accept they read alike.
//!
//! The tools are installed by `scripts/setup-tests.sh`; without one of them these tests fail and
//! say so.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use skill::{Package, PackageLimits, read_directory};
use tempfile::TempDir;

use crate::mutants::random_mutants;
use crate::support::*;

/// Lists every archive given as a line of hexadecimal: names, sizes and checksums as Python sees
/// them.
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

/// Packs the files named to standard output, which is a pipe, or through memory, where the packer
/// can seek.
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

fn run(program: &str, args: &[&str], dir: &Path, input: String) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child =
        command.spawn().unwrap_or_else(|error| panic!("{program} is needed here: {error}"));
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
    let line = |(path, bytes, _): (&str, &[u8], bool)| {
        format!("{} {} {}\n", hex(path.as_bytes()), bytes.len(), crc(bytes))
    };
    contents(package).into_iter().map(line).collect::<String>() + "end\n"
}

#[test]
fn zips_made_by_python_have_the_digest_of_the_directory() {
    let dir = skill_dir("größe.txt");
    let expected = read_directory(dir.path(), &PackageLimits::default()).unwrap();
    for how in ["seek", "stream"] {
        let args = ["-c", PYTHON_PACK, how, "größe.txt", "SKILL.md", "scripts/main.py"];
        let packed = run("python3", &args, dir.path(), String::new());
        assert_eq!(read(&packed).unwrap().digest, expected.digest, "{how}");
    }
}

#[test]
fn zips_made_by_info_zip_have_the_digest_of_the_directory() {
    let dir = skill_dir("plain text.txt");
    let expected = read_directory(dir.path(), &PackageLimits::default()).unwrap();
    let streamed = run("zip", &["-q", "-r", "-", "."], dir.path(), String::new());
    assert_eq!(read(&streamed).unwrap().digest, expected.digest);

    let out = TempDir::new().unwrap();
    let path = out.path().join("skill.zip");
    let args = ["-q", "-r", path.to_str().unwrap(), "."];
    run("zip", &args, dir.path(), String::new());
    assert_eq!(read(&fs::read(path).unwrap()).unwrap().digest, expected.digest);
}

#[test]
fn canonical_archives_open_in_other_readers() {
    let dir = skill_dir("größe.txt");
    let package = read_directory(dir.path(), &PackageLimits::default()).unwrap();
    let out = TempDir::new().unwrap();
    fs::write(out.path().join("skill.zip"), &package.archive).unwrap();
    let args = ["-q", "skill.zip", "-d", "unzipped"];
    run("unzip", &args, out.path(), String::new());
    let again = read_directory(&out.path().join("unzipped"), &PackageLimits::default()).unwrap();
    assert_eq!(again.digest, package.digest);

    let seen = run("python3", &["-c", PYTHON_LIST], out.path(), hex(&package.archive));
    assert_eq!(String::from_utf8(seen).unwrap(), listed(&package));
}

/// Archives that differ in one byte, or come from another system, and are accepted all the same.
fn accepted_mutants() -> Vec<(Vec<u8>, Package)> {
    let original = zip(&[
        deflated("SKILL.md", SKILL_MD.as_bytes()),
        stored("größe.txt", b"text").streamed(true),
        stored("d/", b"").with(|entry| entry.mode = 0o040_755),
        deflated("d/a,b.TXT", b"text").with(|entry| {
            entry.local.extra =
                [extra(0x5455, b"\x03abcdefgh"), extra(0x7875, b"\x01\x04aaaa\x04aaaa")].concat();
            entry.central.extra = [extra(0x5455, b"\x03abcd"), asi_unix(0o100_755, b"")].concat();
        }),
    ]);
    let mut mutants = Vec::new();
    for at in 0..original.len() {
        for change in [0x00, 0x01, 0x10, 0x80, 0xff] {
            let mut mutant = original.clone();
            mutant[at] ^= change;
            mutants.push(mutant);
        }
    }
    for host in 0..=u8::MAX {
        let from = |entry: Entry| {
            entry.with(|entry| (entry.made_by, entry.mode) = (u16::from(host) << 8 | 20, 0))
        };
        let odd =
            ["a;b", "tilde~", "a#U00e9", "UPPER.TXT", "x,fff", "$HOME", "a*b?", "-rf", "é", "tr. "];
        mutants.extend(odd.map(|name| skill_with([from(stored(name, b"x"))])));
    }
    // Those with a wrapper or junk look different by intention.
    let whole = |(what, mutant)| (!["wrapper", "junk"].contains(&what)).then_some(mutant);
    mutants.extend(random_mutants().filter_map(whole));
    let read = |mutant: Vec<u8>| {
        let package = read(&mutant).ok()?;
        Some((mutant, package))
    };
    mutants.into_iter().filter_map(read).collect()
}

#[test]
fn python_reads_the_same_content() {
    let mutants = accepted_mutants();
    assert!(mutants.len() > 2_000, "only {} were accepted", mutants.len());
    let input: String = mutants.iter().map(|(mutant, _)| hex(mutant) + "\n").collect();
    let expected: String = mutants.iter().map(|(_, package)| listed(package)).collect();
    let seen = run("python3", &["-c", PYTHON_LIST], Path::new("/"), input);
    assert_eq!(String::from_utf8(seen).unwrap(), expected);
}

/// Unpacks every archive into a directory of its own; what Info-ZIP says about it is judged by what
/// it left there. It obeys modes that let nobody read.
const UNPACK_ALL: &str = "for zip in *.zip; do mkdir ${zip%.zip}; unzip -q -o $zip -d ${zip%.zip} >/dev/null 2>&1; done; chmod -R u+rwX .";

#[test]
fn info_zip_unpacks_the_same_content() {
    let mutants = accepted_mutants();
    let out = TempDir::new().unwrap();
    for (number, (mutant, _)) in mutants.iter().enumerate() {
        fs::write(out.path().join(format!("{number}.zip")), mutant).unwrap();
    }
    run("sh", &["-c", UNPACK_ALL], out.path(), String::new());
    for (number, (mutant, package)) in mutants.iter().enumerate() {
        let place = out.path().join(number.to_string());
        // Reading the directory refuses links and special files, so that none can have come out.
        let unpacked = read_directory(&place, &PackageLimits::default());
        let unpacked = unpacked.unwrap_or_else(|error| panic!("{error}: {}", hex(mutant)));
        let bytes = |package: &Package| -> Vec<(String, Vec<u8>)> {
            contents(package)
                .into_iter()
                .map(|(path, bytes, _)| (path.to_owned(), bytes.to_vec()))
                .collect()
        };
        assert_eq!(bytes(&unpacked), bytes(package), "{}", hex(mutant));
    }
    println!("{} archives read alike by Info-ZIP", mutants.len());
}
