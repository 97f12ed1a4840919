//! Copies the guest into the volume of a pod: the work of the pod's init container.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::container_backend::sha256_hex;
use crate::guest_binary;

/// The SHA-256 of the guest that is embedded in this program.
pub(super) fn guest_digest() -> String {
    sha256_hex(guest_binary::GUEST_BINARY)
}

/// Writes the embedded guest to a directory. It fails if another digest is expected: worker and pod
/// must use the same guest protocol.
pub fn copy_guest(directory: &Path, expected_digest: Option<&str>) -> Result<(), String> {
    if expected_digest.is_some_and(|expected| expected != guest_digest()) {
        return Err("this image has another guest than the worker expects: \
                    SKILLBOX_KUBE_GUEST_IMAGE must be the image of the worker itself"
            .to_owned());
    }
    let (partial, path) = (directory.join(".skillbox-guest"), directory.join("skillbox-guest"));
    // The rename comes last, so that an incomplete file never has the final name.
    let copied = fs::write(&partial, guest_binary::GUEST_BINARY)
        .and_then(|()| fs::set_permissions(&partial, fs::Permissions::from_mode(0o555)))
        .and_then(|()| fs::rename(&partial, &path));
    copied.map_err(|error| format!("could not write the guest to {}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_expected_guest_is_copied() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = copy_guest(directory.path(), Some("other")).expect_err("another digest");
        assert!(error.contains("SKILLBOX_KUBE_GUEST_IMAGE"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0);
        // Twice: a pod may start its init container again.
        for _ in 0..2 {
            copy_guest(directory.path(), Some(&guest_digest())).expect("copied");
        }
        let copy = fs::read(directory.path().join("skillbox-guest")).expect("a file");
        assert_eq!(copy, guest_binary::GUEST_BINARY);
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1);
        assert!(copy_guest(&directory.path().join("nowhere"), None).is_err());
    }
}
