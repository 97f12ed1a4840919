//! Builds the static guest program, so that the library can carry it inside.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name| {
        #[expect(clippy::disallowed_methods, reason = "this is how cargo talks to a build script")]
        std::env::var(name).expect("cargo sets its variables")
    };
    let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest");
    println!("cargo::rerun-if-changed={}", guest.join("src").display());
    println!("cargo::rerun-if-changed={}", guest.join("Cargo.toml").display());
    let target = variable("TARGET");
    let directory = PathBuf::from(variable("OUT_DIR")).join("guest");
    build(&variable("CARGO"), &guest, &target, &directory);
    let program = directory.join(&target).join("release/skillbox-guest");
    println!("cargo::rustc-env=SKILLBOX_GUEST={}", program.display());
}

/// Runs cargo in a directory of its own: the outer one's is locked while it builds us.
fn build(cargo: &str, guest: &Path, target: &str, directory: &Path) {
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--release", "--bin", "skillbox-guest"])
        // Naming the target keeps the flags below from build scripts and macros.
        .args(["--target", target, "--manifest-path"])
        .arg(guest.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", directory)
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static\x1f-Crelocation-model=static")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s")
        .env("CARGO_PROFILE_RELEASE_LTO", "true")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        // Clippy sets itself as a wrapper, and would then only check.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "the guest program did not build");
}
