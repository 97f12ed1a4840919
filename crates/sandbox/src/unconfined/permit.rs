//! The permit to run a job without a sandbox.
//!
//! It is only granted for a directory on a local disk: code on a network file system can change
//! between the moment when the user reviewed it and the moment when it runs.

use std::io;
use std::path::{Path, PathBuf};

/// Required to run a job without a sandbox. Not `Clone`: one decision applies to one run.
#[derive(Debug)]
pub struct UnconfinedPermit(());

/// Why a directory's code is not run without a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum UntrustedDirectory {
    #[error("{} is not a directory; only a directory on a disk of this machine can be run without a sandbox", .0.display())]
    NotADirectory(PathBuf),
    #[error("{} is on {kind}, a network file system; copy it to a disk of this machine, review it, and run the copy", .path.display())]
    Remote { path: PathBuf, kind: &'static str },
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

/// The file systems whose files another machine can change, by their `statfs` number. FUSE is
/// included because its backing store is unknown, and so are shared folders of virtual machines.
const NETWORK_FILE_SYSTEMS: [(u64, &str); 14] = [
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
    /// For a user who declared that they trust the code in this directory.
    pub fn for_directory(path: &Path) -> Result<UnconfinedPermit, UntrustedDirectory> {
        let unreadable =
            |source: io::Error| UntrustedDirectory::Unreadable { path: path.to_owned(), source };
        if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
            return Err(UntrustedDirectory::NotADirectory(path.to_owned()));
        }
        let found = rustix::fs::statfs(path).map_err(|errno| unreadable(errno.into()))?;
        // The numbers have 32 bits, and some architectures sign-extend them.
        match network_file_system(found.f_type.cast_unsigned() & 0xffff_ffff) {
            Some(kind) => Err(UntrustedDirectory::Remote { path: path.to_owned(), kind }),
            None => Ok(UnconfinedPermit(())),
        }
    }
}

fn network_file_system(kind: u64) -> Option<&'static str> {
    NETWORK_FILE_SYSTEMS.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_only_directories_on_local_disks() {
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
    fn network_file_systems_are_recognised_by_their_numbers() {
        assert_eq!(network_file_system(0x6969), Some("NFS"));
        assert_eq!(network_file_system(0xff53_4d42), Some("CIFS"));
        // ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS.
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(network_file_system(local), None, "{local:#x}");
        }
    }
}
