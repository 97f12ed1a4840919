//! The permission to run a job without a sandbox.
//!
//! There is one way to get it, and it looks at the place that the code lies in: what came over a
//! network, or still lies on one, can change between the moment somebody read it and the moment it
//! runs.

use std::io;
use std::path::{Path, PathBuf};

/// Held by whoever may run a job with nothing around it. Not `Clone`: one decision is good for one
/// run.
#[derive(Debug)]
pub struct UnconfinedPermit(());

/// Why a directory's code is not run without a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum UntrustedDirectory {
    #[error("{} is not a directory; only a directory on a disk of this machine can be run without a sandbox", .0.display())]
    NotADirectory(PathBuf),
    #[error("{} lies on {kind}, a file system of the network; copy it to a disk of this machine, read it, and run that", .path.display())]
    Remote { path: PathBuf, kind: &'static str },
    #[error("cannot look at {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

/// The file systems whose files are somebody else's to change, by the number that `statfs` knows
/// them by. FUSE is one of them, because it cannot be told what is behind it, and so are the
/// folders that a virtual machine shares with its host.
const REMOTE: [(u64, &str); 14] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x1983_0326, "BeeGFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
];

impl UnconfinedPermit {
    /// For a person who said that they trust the code in this directory.
    pub fn for_directory(path: &Path) -> Result<UnconfinedPermit, UntrustedDirectory> {
        let unreadable =
            |source: io::Error| UntrustedDirectory::Unreadable { path: path.to_owned(), source };
        if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
            return Err(UntrustedDirectory::NotADirectory(path.to_owned()));
        }
        let found = rustix::fs::statfs(path).map_err(|errno| unreadable(errno.into()))?;
        // Numbers of 32 bits, which some machines hand out with their sign.
        match remote(found.f_type.cast_unsigned() & 0xffff_ffff) {
            Some(kind) => Err(UntrustedDirectory::Remote { path: path.to_owned(), kind }),
            None => Ok(UnconfinedPermit(())),
        }
    }
}

fn remote(kind: u64) -> Option<&'static str> {
    REMOTE.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_on_a_disk_of_this_machine_is_trusted() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(UnconfinedPermit::for_directory(directory.path()).is_ok());
        let archive = directory.path().join("skill.zip");
        std::fs::write(&archive, "zip").expect("a file");
        assert!(matches!(
            UnconfinedPermit::for_directory(&archive),
            Err(UntrustedDirectory::NotADirectory(_))
        ));
        for nowhere in ["/nowhere", "https://example.com/skill"] {
            assert!(matches!(
                UnconfinedPermit::for_directory(Path::new(nowhere)),
                Err(UntrustedDirectory::Unreadable { .. })
            ));
        }
    }

    #[test]
    fn file_systems_of_the_network_are_known_by_their_numbers() {
        assert_eq!(remote(0x6969), Some("NFS"));
        assert_eq!(remote(0xff53_4d42), Some("CIFS"));
        // ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS.
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(remote(local), None, "{local:#x}");
        }
    }
}
