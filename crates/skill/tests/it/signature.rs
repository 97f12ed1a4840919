//! Signatures: taken out by every reader, bound to one skill, and the same to minisign as to us.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use skill::signature::{
    KeyId, PublicKey, SIGNATURE_FILE, SecretKey, Signature, SignatureError, SkillStatement,
};
use skill::{Package, PackageLimits, SkillError};
use tempfile::TempDir;

use crate::support::*;

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32]).unwrap()
}

fn demo() -> Package {
    read_parts(&[("SKILL.md", SKILL_MD), ("main.py", MAIN_PY)]).unwrap()
}

fn signed(package: &Package) -> String {
    SkillStatement::from_package(package).sign(&key(1), 1_794_857_806).to_string()
}

/// The real program, with what it is to read on its standard input.
fn minisign(dir: &Path, args: &[&str], input: &str) -> Output {
    let program = Command::new("minisign")
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut program = program.expect("minisign, which scripts/setup-tests.sh installs");
    // It may end before it has read anything.
    let _ = program.stdin.take().unwrap().write_all(input.as_bytes());
    program.wait_with_output().unwrap()
}

#[track_caller]
fn succeed(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn every_reader_separates_the_signature() {
    let unsigned = demo();
    let signature = signed(&unsigned);
    let zipped = skill_with([
        stored("main.py", MAIN_PY.as_bytes()),
        deflated(SIGNATURE_FILE, signature.as_bytes()),
    ]);
    let wrapped = zip(&[
        stored("demo/SKILL.md", SKILL_MD.as_bytes()),
        stored("demo/main.py", MAIN_PY.as_bytes()),
        stored("demo/skill.md.MINISIG", signature.as_bytes()),
    ]);
    let dir = TempDir::new().unwrap();
    for (name, text) in [("SKILL.md", SKILL_MD), ("main.py", MAIN_PY), (SIGNATURE_FILE, &signature)]
    {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let packages = [
        read(&zipped).unwrap(),
        read(&wrapped).unwrap(),
        read_parts(&[("SKILL.md", SKILL_MD), ("main.py", MAIN_PY), (SIGNATURE_FILE, &signature)])
            .unwrap(),
        skill::read_directory(dir.path(), &PackageLimits::default()).unwrap(),
    ];
    for package in packages {
        assert_eq!(
            (package.digest, package.signature),
            (unsigned.digest.clone(), Some(signature.clone()))
        );
        assert_eq!(package.archive, unsigned.archive);
        assert_eq!(package.files, unsigned.files);
    }
    assert_eq!(unsigned.signature, None);
}

#[test]
fn upload_archive_contains_the_signature() {
    let mut package = demo();
    assert_eq!(package.to_upload_archive().unwrap(), package.archive);
    package.signature = Some(signed(&package));
    let back = read(&package.to_upload_archive().unwrap()).unwrap();
    assert_eq!((back.digest, back.signature), (package.digest, package.signature));
}

#[test]
fn only_the_file_at_the_root_is_the_signature() {
    let inner = format!("docs/{SIGNATURE_FILE}");
    let package = read_parts(&[("SKILL.md", SKILL_MD), (&inner, "anything")]).unwrap();
    assert_eq!(package.signature, None);
    assert!(package.files.iter().any(|file| file.path == inner));
}

#[test]
fn invalid_signature_files_are_rejected() {
    let good = signed(&demo());
    let lines: Vec<&str> = good.lines().collect();
    let too_large = format!("untrusted comment: {}\n", "x".repeat(5000));
    let more = format!("{good}\nmore\n");
    let cut = lines[..3].join("\n");
    let no_base64 = good.replacen("\nRU", "\nR*", 1);
    let other_algorithm = good.replacen("\nRU", "\nRV", 1);
    let control = good.replacen("timestamp", "time\u{1b}stamp", 1);
    for text in ["", "hello", &too_large, &more, &cut, &no_base64, &other_algorithm, &control] {
        let error = read_parts(&[("SKILL.md", SKILL_MD), (SIGNATURE_FILE, text)]).unwrap_err();
        assert!(matches!(error, SkillError::Signature(_)), "{text:?}: {error}");
        assert_eq!(error.slug(), "signature_invalid");
        assert!(error.to_string().starts_with("SKILL.md.minisig: the signature"), "{error}");
    }
    let parts =
        vec![("SKILL.md".to_owned(), SKILL_MD.into()), (SIGNATURE_FILE.to_owned(), vec![0xff; 9])];
    assert_eq!(
        skill::read_parts(parts, &PackageLimits::default()).unwrap_err().slug(),
        "signature_invalid"
    );
    // Editors of another system end lines in their own way.
    let crlf = good.replace('\n', "\r\n");
    assert!(read_parts(&[("SKILL.md", SKILL_MD), (SIGNATURE_FILE, &crlf)]).is_ok());
}

#[test]
fn signature_is_valid_for_one_statement_only() {
    let package = demo();
    let statement = SkillStatement::from_package(&package);
    let signature = statement.sign(&key(1), 5);
    let public = key(1).public();
    let text = statement.to_string();
    let verified = signature.verify(&public, text.as_bytes()).unwrap();
    assert_eq!((verified.key_id, verified.signed_at), (public.id(), Some(5)));
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1 << bit;
            assert_eq!(
                signature.verify(&public, &changed),
                Err(SignatureError::Mismatch),
                "byte {at}"
            );
        }
    }
    let stranger = key(2).public();
    let refused = signature.verify(&stranger, text.as_bytes());
    assert_eq!(refused, Err(SignatureError::OtherKey { made_with: public.id() }));
}

#[test]
fn no_signed_byte_of_a_signature_can_be_changed() {
    let package = demo();
    let (text, public) = (signed(&package), key(1).public());
    let statement = SkillStatement::from_package(&package).to_string();
    let unsigned_line = text.find('\n').unwrap();
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let parsed =
                String::from_utf8(bytes).ok().and_then(|changed| changed.parse::<Signature>().ok());
            let fits =
                parsed.is_some_and(|changed| changed.verify(&public, statement.as_bytes()).is_ok());
            // The first line is a comment that nobody signs, and a last line break may be missing.
            assert!(!fits || at < unsigned_line || at == text.len() - 1, "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn keys_are_read_strictly() {
    let public = key(1).public();
    for text in [public.to_string(), public.to_file(), format!("{public}\n")] {
        assert_eq!(text.parse::<PublicKey>().unwrap(), public);
    }
    // A point of small order would fit signatures that nobody made.
    let small_order = data_encoding::BASE64.encode(&[b"Ed".as_slice(), &[7; 8], &[0; 32]].concat());
    for text in ["", "RWQ", &small_order, &format!("{public}\n{public}"), &format!("{public}=")] {
        assert!(text.parse::<PublicKey>().is_err(), "{text}");
    }
    assert!(SecretKey::from_seed([0; 32]).is_err());
    for text in ["", "untrusted comment: x\nRWQ=\n", &public.to_file()] {
        assert!(
            matches!(SecretKey::read(text, None), Err(SignatureError::Malformed { .. })),
            "{text}"
        );
    }
    assert!(!format!("{:?}", key(1)).contains("RW"));
}

#[test]
fn keys_with_mismatched_halves_are_rejected() {
    let file = key(1).to_file(None).unwrap();
    let mut bytes = data_encoding::BASE64.decode(file.lines().nth(1).unwrap().as_bytes()).unwrap();
    // Its public half: a signature made with it would give the secret half away.
    bytes[100] ^= 1;
    let spoiled = format!("untrusted comment: x\n{}\n", data_encoding::BASE64.encode(&bytes));
    assert!(SecretKey::read(&spoiled, None).is_err());
}

#[test]
fn minisign_verifies_what_we_sign() {
    let dir = TempDir::new().unwrap();
    let package = demo();
    fs::write(dir.path().join("statement"), SkillStatement::from_package(&package).to_string())
        .unwrap();
    fs::write(dir.path().join("sig"), signed(&package)).unwrap();
    fs::write(dir.path().join("key.pub"), key(1).public().to_file()).unwrap();
    let verify = ["-V", "-H", "-m", "statement", "-x", "sig"];
    let public = key(1).public().to_string();
    succeed(&minisign(dir.path(), &[verify.as_slice(), &["-p", "key.pub"]].concat(), ""));
    let output = minisign(dir.path(), &[verify.as_slice(), &["-P", &public]].concat(), "");
    succeed(&output);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("timestamp:1794857806\tskill:demo@1.0.0"), "{said}");

    fs::write(
        dir.path().join("statement"),
        SkillStatement { version: "1.0.1", ..SkillStatement::from_package(&package) }.to_string(),
    )
    .unwrap();
    assert!(
        !minisign(dir.path(), &[verify.as_slice(), &["-P", &public]].concat(), "").status.success()
    );
}

fn name_in_comment(public: &str) -> KeyId {
    public.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

/// One key in sixteen has a name that begins with a zero, and minisign leaves it away.
#[test]
fn key_ids_are_formatted_like_minisign() {
    let dir = TempDir::new().unwrap();
    let short = (0..400).find_map(|_| {
        succeed(&minisign(dir.path(), &["-G", "-f", "-W", "-p", "key.pub", "-s", "key"], ""));
        let file = fs::read_to_string(dir.path().join("key.pub")).unwrap();
        let public: PublicKey = file.parse().unwrap();
        public.id().to_string().starts_with('0').then_some((file, public))
    });
    let (file, public) = short.expect("none of 400 keys has a short name");
    assert_eq!(public.to_file(), file);
    assert_eq!(name_in_comment(&file), public.id());
    assert_eq!(public.id().to_string().len(), 16);
}

#[test]
fn we_verify_what_minisign_signs() {
    let dir = TempDir::new().unwrap();
    let package = demo();
    let statement = SkillStatement::from_package(&package).to_string();
    fs::write(dir.path().join("statement"), &statement).unwrap();
    succeed(&minisign(dir.path(), &["-G", "-W", "-p", "key.pub", "-s", "key"], ""));
    succeed(&minisign(dir.path(), &["-S", "-s", "key", "-m", "statement", "-x", "sig"], ""));
    let file = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let public: PublicKey = file("key.pub").parse().unwrap();
    assert_eq!(name_in_comment(&file("key.pub")), public.id(), "the same name for a key");
    assert_eq!(public.to_file(), file("key.pub"));

    // It passes the reader of skills, and then the check.
    let uploaded =
        read_parts(&[("SKILL.md", SKILL_MD), ("main.py", MAIN_PY), (SIGNATURE_FILE, &file("sig"))])
            .unwrap();
    let signature: Signature = uploaded.signature.as_ref().unwrap().parse().unwrap();
    assert_eq!(signature.to_string(), file("sig"));
    let verified = signature
        .verify(&public, SkillStatement::from_package(&uploaded).to_string().as_bytes())
        .unwrap();
    assert!(verified.signed_at.is_some());
    assert_eq!(signature.verify(&public, b"another text"), Err(SignatureError::Mismatch));

    // The old kind, which signs without hashing.
    succeed(&minisign(dir.path(), &["-S", "-l", "-s", "key", "-m", "statement", "-x", "old"], ""));
    assert_eq!(file("old").parse::<Signature>(), Err(SignatureError::Legacy));
}

#[test]
fn secret_keys_are_interchangeable_with_minisign() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("text"), "something to sign").unwrap();
    let verify = |public: &PublicKey, name: &str| {
        let signature: Signature =
            fs::read_to_string(dir.path().join(name)).unwrap().parse().unwrap();
        signature.verify(public, b"something to sign").unwrap();
    };
    // Ours, open and locked, used by minisign.
    let ours = key(9);
    let locked = ours.to_file(Some(("correct horse", [3; 32]))).unwrap();
    for (name, text) in [("open", ours.to_file(None).unwrap()), ("locked", locked.clone())] {
        fs::write(dir.path().join(name), text).unwrap();
        let signature = format!("{name}.minisig");
        succeed(&minisign(
            dir.path(),
            &["-S", "-s", name, "-m", "text", "-x", &signature],
            "correct horse\n",
        ));
        verify(&ours.public(), &signature);
    }
    // And by ourselves.
    assert_eq!(SecretKey::read(&locked, Some("correct horse")).unwrap().public(), ours.public());
    assert_eq!(SecretKey::read(&locked, None).unwrap_err(), SignatureError::Locked);
    assert_eq!(
        SecretKey::read(&locked, Some("battery staple")).unwrap_err(),
        SignatureError::WrongPassword
    );

    // Minisign's, used by us.
    for (name, args, input) in
        [("theirs", &["-W"][..], ""), ("theirs-locked", &[], "staple\nstaple\n")]
    {
        let (secret, public) = (name, format!("{name}.pub"));
        succeed(&minisign(
            dir.path(),
            &[&["-G"], args, &["-s", secret, "-p", &public]].concat(),
            input,
        ));
        let text = fs::read_to_string(dir.path().join(secret)).unwrap();
        let read = SecretKey::read(&text, Some("staple")).unwrap();
        let signature = read.sign(b"something to sign", "by us", "with their key");
        fs::write(dir.path().join("text.minisig"), signature.to_string()).unwrap();
        succeed(&minisign(dir.path(), &["-V", "-m", "text", "-p", &public], ""));
    }
}
