//! The new root: a tmpfs of our own with read-only pieces of the host in it, and nothing else of the host.

use super::sys;
use guest::jail::{Entry, Plan, Scratch};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Any directory that exists everywhere; the new root hides it only in this mount namespace.
const ATTACH_AT: &str = "/tmp";

/// Where the scratch file system hangs while its directories are bound to their places.
const SCRATCH: &str = ".scratch";

/// A directory of the scratch file system that covers masked directories.
const EMPTY: &str = "empty";

/// Space for the few directories, links and small files of the root itself.
const ROOT_BYTES: u64 = 1 << 20;
const ROOT_INODES: u64 = 1024;

/// The host's trees of a plan, in its order, as detached mounts.
pub struct Sources(Vec<Option<OwnedFd>>);

/// Opens every host path while this process may still look it up as the user who started the service.
pub fn open_sources(plan: &Plan) -> io::Result<Sources> {
    let open = |entry: &Entry| match entry {
        Entry::Bind { source, .. } => {
            let tree = clone_tree(CWD, source)?;
            set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY | nosuid_nodev(), true)?;
            Ok(Some(tree))
        }
        Entry::Device { path } => {
            let tree = clone_tree(CWD, path)?;
            // A device on a read-only mount can be written to; its times, which every sandbox sees, cannot be set.
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY | attributes, true)?;
            Ok(Some(tree))
        }
        _ => Ok(None),
    };
    Ok(Sources(plan.root.iter().map(open).collect::<io::Result<_>>()?))
}

/// Builds the new root and moves into it; the old one is out of reach afterwards.
pub fn enter(plan: &Plan, sources: Sources) -> io::Result<()> {
    // Nothing mounted here may travel back to the host.
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let root = tmpfs(ROOT_BYTES, ROOT_INODES, nosuid_nodev())?;
    attach(&root, CWD, ATTACH_AT)?;
    let scratch = mount_scratch(root.as_fd(), &plan.scratch)?;
    for (entry, source) in plan.root.iter().zip(sources.0) {
        place(root.as_fd(), scratch.as_fd(), entry, source)?;
    }
    rustix::process::fchdir(&root)?;
    rustix::mount::unmount(SCRATCH, UnmountFlags::DETACH)?;
    rustix::fs::unlinkat(&root, SCRATCH, AtFlags::REMOVEDIR)?;
    set_attributes(&root, MountAttrFlags::MOUNT_ATTR_RDONLY, false)?;
    // Stacks the old root on top of the new one, then takes it off.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

fn place(root: BorrowedFd<'_>, scratch: BorrowedFd<'_>, entry: &Entry, source: Option<OwnedFd>) -> io::Result<()> {
    match entry {
        Entry::Directory { path } => make_directories(root, relative(path)),
        Entry::File { path, contents } => write_file(root, relative(path), contents),
        Entry::Symlink { path, target } => {
            make_directories(root, parent(relative(path)))?;
            Ok(rustix::fs::symlinkat(target.as_str(), root, relative(path))?)
        }
        Entry::Bind { target: path, .. } | Entry::Device { path } => {
            let source = source.ok_or(io::ErrorKind::NotFound)?;
            let stat = rustix::fs::fstat(&source)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                make_directories(root, relative(path))?;
            } else {
                write_file(root, relative(path), "")?;
            }
            attach(&source, root, relative(path))
        }
        Entry::Scratch { path } => {
            let name = relative(path).replace('/', "-");
            make_directories(scratch, &name)?;
            make_directories(root, relative(path))?;
            attach(&clone_tree(scratch, &name)?, root, relative(path))
        }
        Entry::Proc { masked } => mount_proc(root, scratch, masked),
    }
}

/// Mounts the scratch file system at a passing place in the root.
fn mount_scratch(root: BorrowedFd<'_>, scratch: &Scratch) -> io::Result<OwnedFd> {
    let mount = tmpfs(scratch.bytes, scratch.inodes, nosuid_nodev())?;
    make_directories(root, SCRATCH)?;
    attach(&mount, root, SCRATCH)?;
    Ok(mount)
}

fn mount_proc(root: BorrowedFd<'_>, scratch: BorrowedFd<'_>, masked: &[String]) -> io::Result<()> {
    make_directories(root, "proc")?;
    let attributes = nosuid_nodev() | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    // In a container whose own proc is partly covered the kernel refuses a whole one; its processes are enough.
    let proc =
        file_system("proc", &[], attributes).or_else(|_| file_system("proc", &[("subset", "pid")], attributes))?;
    attach(&proc, root, "proc")?;
    make_directories(scratch, EMPTY)?;
    for path in masked.iter().map(|path| relative(path)) {
        let stat = match rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => continue,
            found => found?,
        };
        let cover = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => clone_tree(scratch, EMPTY)?,
            _ => clone_tree(root, "dev/null")?,
        };
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID;
        set_attributes(&cover, attributes, true)?;
        attach(&cover, root, path)?;
    }
    Ok(())
}

fn tmpfs(bytes: u64, inodes: u64, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let (size, inodes) = (bytes.to_string(), inodes.to_string());
    file_system("tmpfs", &[("size", &size), ("nr_inodes", &inodes), ("mode", "0755")], attributes)
}

fn file_system(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(&context, *key, *value)?;
    }
    rustix::mount::fsconfig_create(&context)?;
    Ok(rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn clone_tree(at: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(at, path, flags)?)
}

fn attach(mount: &OwnedFd, at: BorrowedFd<'_>, path: &str) -> io::Result<()> {
    Ok(rustix::mount::move_mount(mount, "", at, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn set_attributes(mount: &OwnedFd, attributes: MountAttrFlags, recursive: bool) -> io::Result<()> {
    sys::set_mount_attributes(mount.as_fd(), u64::from(attributes.bits()), recursive)
}

fn nosuid_nodev() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

fn make_directories(at: BorrowedFd<'_>, path: &str) -> io::Result<()> {
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    for end in ends.filter(|end| *end > 0) {
        match rustix::fs::mkdirat(at, &path[..end], Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn write_file(at: BorrowedFd<'_>, path: &str, contents: &str) -> io::Result<()> {
    make_directories(at, parent(path))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(at, path, flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(&file, contents.as_bytes())?;
    Ok(())
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
