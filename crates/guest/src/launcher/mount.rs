//! Detached mounts, made with the mount API that works on descriptors instead of paths.

use super::sys;
use guest::jail::ScratchLimits;
use rustix::fs::FileType;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A new tmpfs of this size.
pub(super) fn tmpfs(size: &ScratchLimits, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let [(bytes_key, bytes), (inodes_key, inodes)] = size_options(size);
    file_system(
        "tmpfs",
        &[(bytes_key, &bytes), (inodes_key, &inodes), ("mode", "0755")],
        attributes,
    )
}

/// The mount options for a size.
pub(super) fn size_options(size: &ScratchLimits) -> [(&'static str, String); 2] {
    [("size", size.bytes.to_string()), ("nr_inodes", size.inodes.to_string())]
}

/// A new detached mount of a file system.
pub(super) fn file_system(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(&context, *key, *value)?;
    }
    rustix::mount::fsconfig_create(&context)?;
    Ok(rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// A detached copy of the mounts at a path.
pub(super) fn clone_tree(at: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(at, path, flags)?)
}

/// Attaches a detached mount at a path.
pub(super) fn attach(mount: &OwnedFd, at: BorrowedFd<'_>, path: &str) -> io::Result<()> {
    Ok(rustix::mount::move_mount(mount, "", at, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Sets attributes of a mount and, if `recursive`, of those below it.
pub(super) fn set_attributes(
    mount: &OwnedFd,
    attributes: MountAttrFlags,
    recursive: bool,
) -> io::Result<()> {
    sys::set_mount_attributes(mount.as_fd(), u64::from(attributes.bits()), recursive)
}

/// The attributes of all mounts of a sandbox.
pub(super) fn nosuid_nodev() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

/// Whether the root of a mount is a directory.
pub(super) fn is_directory(mount: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(mount)?.st_mode) == FileType::Directory)
}
