//! The new root: a tmpfs that contains read-only parts of the host, and nothing else of the host.

use super::mount::{
    attach, clone_tree, file_system, is_directory, nosuid_nodev, set_attributes, size_options,
    tmpfs,
};
use guest::jail::{RootEntry, SandboxPlan, ScratchLimits};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::mount::{FsPickFlags, MountAttrFlags, MountPropagationFlags, UnmountFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A directory that exists on every host. Mounting on it hides it only in this mount namespace.
const MOUNT_POINT: &str = "/tmp";

/// A directory and a file of the scratch file system that are mounted over masked paths.
const EMPTY_DIRECTORY: &str = "empty";
const EMPTY_FILE: &str = "empty-file";

/// The size of the scratch file system while a spare child prepares it. A run resizes it.
const INITIAL_SCRATCH: ScratchLimits = ScratchLimits { bytes: 1 << 20, inodes: 64 };

/// The size of the root, which has only a few directories, links and small files.
const ROOT_SIZE: ScratchLimits = ScratchLimits { bytes: 4 << 20, inodes: 1024 };

/// The opened host files and trees of a plan, in the plan's order.
pub(super) struct HostSources(Vec<Option<HostSource>>);

enum HostSource {
    /// A detached mount.
    Tree(OwnedFd),
    /// A file to copy.
    File(File),
}

/// The result of building the root.
pub(super) struct BuiltRoot {
    /// The kernel's list of locks, opened before it was masked, if the kernel has one.
    pub locks: Option<OwnedFd>,
    /// No host tree is mounted with the host's own inodes.
    pub private: bool,
    /// The file system of all writable directories.
    pub scratch: OwnedFd,
}

/// Opens every host path while this process still runs as the service's user, who may have access
/// that the sandbox's user does not have.
pub(super) fn open_sources(plan: &SandboxPlan) -> io::Result<HostSources> {
    let open = |entry: &RootEntry| match entry {
        RootEntry::Bind { source, .. } if std::fs::metadata(source)?.is_file() => {
            Ok(Some(HostSource::File(File::open(source)?)))
        }
        RootEntry::Bind { source, .. } => {
            let tree = clone_tree(CWD, source)?;
            set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY | nosuid_nodev(), true)?;
            Ok(Some(HostSource::Tree(tree)))
        }
        RootEntry::Device { path } => {
            let tree = clone_tree(CWD, path)?;
            // A device on a read-only mount is writable, but its timestamps, which all sandboxes
            // share, are not.
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY | attributes, true)?;
            Ok(Some(HostSource::Tree(tree)))
        }
        RootEntry::Directory { .. }
        | RootEntry::File { .. }
        | RootEntry::Symlink { .. }
        | RootEntry::Scratch { .. }
        | RootEntry::Proc { .. } => Ok(None),
    };
    Ok(HostSources(plan.root.iter().map(open).collect::<io::Result<_>>()?))
}

/// Builds the new root and makes it the root of this process. The old root is unreachable
/// afterwards.
pub(super) fn build_and_enter(plan: &SandboxPlan, sources: HostSources) -> io::Result<BuiltRoot> {
    // First: otherwise a shared mount would propagate everything below to the host.
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    // The scratch file system is mounted between the old root and the new one. It is thus detached
    // together with the old root, with all mounts below it: unmounting each of them separately
    // would wait for every processor.
    let scratch = mount_scratch()?;
    let root = tmpfs(&ROOT_SIZE, nosuid_nodev())?;
    attach(&root, CWD, MOUNT_POINT)?;
    // Overlay layers are given as paths, and nothing below the new root is reachable by a path.
    rustix::process::fchdir(&scratch)?;
    let mut built = BuiltRoot { locks: None, private: plan.private_inodes, scratch };
    for (number, (entry, source)) in plan.root.iter().zip(sources.0).enumerate() {
        add_entry(root.as_fd(), (number, entry, source), plan.private_inodes, &mut built)?;
    }
    set_attributes(&root, MountAttrFlags::MOUNT_ATTR_RDONLY, false)?;
    rustix::process::fchdir(&root)?;
    // Puts the old root on top of the new one, then detaches it: no directory for it is needed.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(built)
}

/// Sets the size of the scratch file system to the limits of a run.
pub(super) fn resize_scratch(scratch: &OwnedFd, size: &ScratchLimits) -> io::Result<()> {
    let context = rustix::mount::fspick(
        scratch,
        "",
        FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC,
    )?;
    for (key, value) in size_options(size) {
        rustix::mount::fsconfig_set_string(&context, key, value.as_str())?;
    }
    Ok(rustix::mount::fsconfig_reconfigure(&context)?)
}

fn add_entry(
    root: BorrowedFd<'_>,
    (number, entry, source): (usize, &RootEntry, Option<HostSource>),
    private_inodes: bool,
    built: &mut BuiltRoot,
) -> io::Result<()> {
    match entry {
        RootEntry::Directory { path } => make_directories(root, relative(path)),
        RootEntry::File { path, contents } => write_file(root, relative(path), contents),
        RootEntry::Symlink { path, target } => {
            make_directories(root, parent(relative(path)))?;
            Ok(rustix::fs::symlinkat(target.as_str(), root, relative(path))?)
        }
        RootEntry::Bind { target: path, .. } | RootEntry::Device { path } => match source {
            Some(HostSource::File(mut file)) => {
                io::copy(&mut file, &mut create_file(root, relative(path))?)?;
                Ok(())
            }
            Some(HostSource::Tree(tree)) if is_directory(&tree)? => {
                make_directories(root, relative(path))?;
                if !private_inodes {
                    return attach(&tree, root, relative(path));
                }
                built.private &=
                    attach_overlay(&tree, number, root, relative(path), &built.scratch)?;
                Ok(())
            }
            Some(HostSource::Tree(device)) => {
                create_file(root, relative(path))?;
                attach(&device, root, relative(path))
            }
            None => Err(io::ErrorKind::NotFound.into()),
        },
        RootEntry::Scratch { path } => {
            let name = relative(path).replace('/', "-");
            make_directories(built.scratch.as_fd(), &name)?;
            make_directories(root, relative(path))?;
            attach(&clone_tree(built.scratch.as_fd(), &name)?, root, relative(path))
        }
        RootEntry::Proc { masked } => {
            built.locks = mount_proc(root, built.scratch.as_fd(), masked)?;
            Ok(())
        }
    }
}

/// Attaches a tree through an overlay, which has inodes of its own and hides the path of the tree
/// on the host. Where the kernel supports no overlay, for example with mounts below the tree,
/// attaches the tree itself and returns false.
fn attach_overlay(
    tree: &OwnedFd,
    number: usize,
    root: BorrowedFd<'_>,
    path: &str,
    scratch: &OwnedFd,
) -> io::Result<bool> {
    let lower = format!("lower-{number}");
    make_directories(scratch.as_fd(), &lower)?;
    attach(tree, scratch.as_fd(), &lower)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY | nosuid_nodev();
    // The kernel requires two layers for a read-only overlay.
    match file_system("overlay", &[("lowerdir", &format!("{lower}:{EMPTY_DIRECTORY}"))], attributes)
    {
        Ok(overlay) => {
            // The overlay holds its own reference to the tree.
            attach(&overlay, root, path)?;
            Ok(true)
        }
        Err(_) => {
            attach(tree, root, path)?;
            Ok(false)
        }
    }
}

/// Mounts the scratch file system at the path where the new root will be mounted over it.
fn mount_scratch() -> io::Result<OwnedFd> {
    let mount = tmpfs(&INITIAL_SCRATCH, nosuid_nodev())?;
    attach(&mount, CWD, MOUNT_POINT)?;
    make_directories(mount.as_fd(), EMPTY_DIRECTORY)?;
    create_file(mount.as_fd(), EMPTY_FILE)?;
    Ok(mount)
}

/// Mounts a new procfs with these paths masked, and opens its list of locks before that is masked.
fn mount_proc(
    root: BorrowedFd<'_>,
    scratch: BorrowedFd<'_>,
    masked: &[String],
) -> io::Result<Option<OwnedFd>> {
    make_directories(root, "proc")?;
    let attributes = nosuid_nodev() | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    // In a container whose own procfs is partly masked, the kernel denies mounting a complete one.
    // The part about processes is sufficient.
    let proc = file_system("proc", &[], attributes)
        .or_else(|_| file_system("proc", &[("subset", "pid")], attributes))?;
    attach(&proc, root, "proc")?;
    let locks =
        rustix::fs::openat(&proc, "locks", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
    // Masks are copies of the first of their type, so that its attributes are set only once.
    let (mut directory, mut file) = (None, None);
    for path in masked.iter().map(|path| relative(path)) {
        let stat = match rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => continue,
            found => found?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => mask(root, path, (scratch, EMPTY_DIRECTORY), &mut directory)?,
            _ => mask(root, path, (scratch, EMPTY_FILE), &mut file)?,
        }
    }
    Ok(locks)
}

/// Covers a path with a copy of the mask that lies on `first` already, or of `source` if there is
/// none yet.
fn mask<'a>(
    root: BorrowedFd<'_>,
    path: &'a str,
    (at, source): (BorrowedFd<'_>, &str),
    first: &mut Option<&'a str>,
) -> io::Result<()> {
    let mask = match *first {
        Some(first) => clone_tree(root, first)?,
        None => {
            let mask = clone_tree(at, source)?;
            set_attributes(&mask, MountAttrFlags::MOUNT_ATTR_RDONLY | nosuid_nodev(), true)?;
            mask
        }
    };
    attach(&mask, root, path)?;
    first.get_or_insert(path);
    Ok(())
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
    create_file(at, path)?.write_all(contents.as_bytes())
}

fn create_file(at: BorrowedFd<'_>, path: &str) -> io::Result<File> {
    make_directories(at, parent(path))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::from_raw_mode(0o644))?.into())
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
