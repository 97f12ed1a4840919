//! The new root: a tmpfs of our own with read-only pieces of the host in it, and nothing else of
//! the host.

use super::sys;
use guest::jail::{RootEntry, SandboxPlan, ScratchLimits};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Any directory that exists everywhere; what is mounted there hides it only in this mount
/// namespace.
const ATTACH_AT: &str = "/tmp";

/// A directory and a file of the scratch file system that cover masked ones.
const EMPTY: &str = "empty";
const EMPTY_FILE: &str = "empty-file";

/// Enough to make the directories of the scratch file system, until it gets the size of a run.
const UNUSED_SCRATCH: ScratchLimits = ScratchLimits { bytes: 1 << 20, inodes: 64 };

/// Space for the few directories, links and files of the root itself.
const ROOT_SIZE: ScratchLimits = ScratchLimits { bytes: 4 << 20, inodes: 1024 };

/// The host's files and trees of a plan, in its order.
pub struct Sources(Vec<Option<Source>>);

enum Source {
    /// A detached mount.
    Tree(OwnedFd),
    /// To be copied.
    File(File),
}

/// A root that stands.
pub struct Root {
    /// The kernel's list of the locks of this sandbox's processes, if it could be had. It is hidden
    /// from scripts.
    pub locks: Option<OwnedFd>,
    /// No tree of the host is there with the host's own inodes.
    pub private: bool,
    /// The file system of all that scripts may write.
    pub scratch: OwnedFd,
}

/// Opens every host path while this process may still look it up as the user who started the
/// service.
pub fn open_sources(plan: &SandboxPlan) -> io::Result<Sources> {
    let open = |entry: &RootEntry| match entry {
        RootEntry::Bind { source, .. } if std::fs::metadata(source)?.is_file() => {
            Ok(Some(Source::File(File::open(source)?)))
        }
        RootEntry::Bind { source, .. } => {
            let tree = clone_tree(CWD, source)?;
            set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY | nosuid_nodev(), true)?;
            Ok(Some(Source::Tree(tree)))
        }
        RootEntry::Device { path } => {
            let tree = clone_tree(CWD, path)?;
            // A device on a read-only mount can be written to; its times, which every sandbox sees,
            // cannot be set.
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY | attributes, true)?;
            Ok(Some(Source::Tree(tree)))
        }
        _ => Ok(None),
    };
    Ok(Sources(plan.root.iter().map(open).collect::<io::Result<_>>()?))
}

/// Builds the new root and moves into it; the old one is out of reach afterwards.
pub fn enter(plan: &SandboxPlan, sources: Sources) -> io::Result<Root> {
    // Nothing mounted here may travel back to the host.
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    // The scratch file system lies between the old root and the new one. So it goes with the old
    // one, and with it all that hangs in it: each unmounting of its own would wait for every
    // processor.
    let scratch = mount_scratch()?;
    let root = tmpfs(&ROOT_SIZE, nosuid_nodev())?;
    attach(&root, CWD, ATTACH_AT)?;
    // Layers of overlays are named by paths, and no path leads below the new root.
    rustix::process::fchdir(&scratch)?;
    let mut made = Root { locks: None, private: plan.own_inodes, scratch };
    for (number, (entry, source)) in plan.root.iter().zip(sources.0).enumerate() {
        place(root.as_fd(), (number, entry, source), plan.own_inodes, &mut made)?;
    }
    set_attributes(&root, MountAttrFlags::MOUNT_ATTR_RDONLY, false)?;
    rustix::process::fchdir(&root)?;
    // Stacks the old root on top of the new one, then takes it off.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(made)
}

/// Gives the scratch file system the size that a run is allowed.
pub fn resize_scratch(scratch: &OwnedFd, size: &ScratchLimits) -> io::Result<()> {
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

fn place(
    root: BorrowedFd<'_>,
    (number, entry, source): (usize, &RootEntry, Option<Source>),
    own_inodes: bool,
    made: &mut Root,
) -> io::Result<()> {
    match entry {
        RootEntry::Directory { path } => make_directories(root, relative(path)),
        RootEntry::File { path, contents } => write_file(root, relative(path), contents),
        RootEntry::Symlink { path, target } => {
            make_directories(root, parent(relative(path)))?;
            Ok(rustix::fs::symlinkat(target.as_str(), root, relative(path))?)
        }
        RootEntry::Bind { target: path, .. } | RootEntry::Device { path } => match source {
            Some(Source::File(mut file)) => {
                io::copy(&mut file, &mut create_file(root, relative(path))?)?;
                Ok(())
            }
            Some(Source::Tree(tree)) if is_directory(&tree)? => {
                make_directories(root, relative(path))?;
                if !own_inodes {
                    return attach(&tree, root, relative(path));
                }
                made.private &=
                    attach_privately(&tree, number, root, relative(path), &made.scratch)?;
                Ok(())
            }
            Some(Source::Tree(device)) => {
                create_file(root, relative(path))?;
                attach(&device, root, relative(path))
            }
            None => Err(io::ErrorKind::NotFound.into()),
        },
        RootEntry::Scratch { path } => {
            let name = relative(path).replace('/', "-");
            make_directories(made.scratch.as_fd(), &name)?;
            make_directories(root, relative(path))?;
            attach(&clone_tree(made.scratch.as_fd(), &name)?, root, relative(path))
        }
        RootEntry::Proc { masked } => {
            made.locks = mount_proc(root, made.scratch.as_fd(), masked)?;
            Ok(())
        }
    }
}

/// Attaches a tree through an overlay, whose inodes nobody else has and which does not tell where
/// the tree comes from. Where the kernel makes none, as with mounts below the tree, the tree
/// itself, and false.
fn attach_privately(
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
    // The kernel wants two layers if nothing can be written.
    match file_system("overlay", &[("lowerdir", &format!("{lower}:{EMPTY}"))], attributes) {
        Ok(overlay) => {
            // It has a mount of its own to the tree.
            attach(&overlay, root, path)?;
            Ok(true)
        }
        Err(_) => {
            attach(tree, root, path)?;
            Ok(false)
        }
    }
}

/// Mounts the scratch file system where the new root is going to hide it.
fn mount_scratch() -> io::Result<OwnedFd> {
    let mount = tmpfs(&UNUSED_SCRATCH, nosuid_nodev())?;
    attach(&mount, CWD, ATTACH_AT)?;
    make_directories(mount.as_fd(), EMPTY)?;
    create_file(mount.as_fd(), EMPTY_FILE)?;
    Ok(mount)
}

/// Mounts the sandbox's own proc with these paths in it covered, and opens its list of locks before
/// that is.
fn mount_proc(
    root: BorrowedFd<'_>,
    scratch: BorrowedFd<'_>,
    masked: &[String],
) -> io::Result<Option<OwnedFd>> {
    make_directories(root, "proc")?;
    let attributes = nosuid_nodev() | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    // In a container whose own proc is partly covered the kernel refuses a whole one; its processes
    // are enough.
    let proc = file_system("proc", &[], attributes)
        .or_else(|_| file_system("proc", &[("subset", "pid")], attributes))?;
    attach(&proc, root, "proc")?;
    let locks =
        rustix::fs::openat(&proc, "locks", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
    // Covers are copies of the first of their kind, so that its attributes are set once.
    let (mut directory, mut file) = (None, None);
    for path in masked.iter().map(|path| relative(path)) {
        let stat = match rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => continue,
            found => found?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => cover(root, path, (scratch, EMPTY), &mut directory)?,
            _ => cover(root, path, (scratch, EMPTY_FILE), &mut file)?,
        }
    }
    Ok(locks)
}

/// Covers a path with a copy of the cover that lies on `first` already, or of `source` if there is
/// none yet.
fn cover<'a>(
    root: BorrowedFd<'_>,
    path: &'a str,
    (at, source): (BorrowedFd<'_>, &str),
    first: &mut Option<&'a str>,
) -> io::Result<()> {
    let cover = match *first {
        Some(first) => clone_tree(root, first)?,
        None => {
            let cover = clone_tree(at, source)?;
            set_attributes(&cover, MountAttrFlags::MOUNT_ATTR_RDONLY | nosuid_nodev(), true)?;
            cover
        }
    };
    attach(&cover, root, path)?;
    first.get_or_insert(path);
    Ok(())
}

fn tmpfs(size: &ScratchLimits, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let [(bytes_key, bytes), (inodes_key, inodes)] = size_options(size);
    file_system(
        "tmpfs",
        &[(bytes_key, &bytes), (inodes_key, &inodes), ("mode", "0755")],
        attributes,
    )
}

fn size_options(size: &ScratchLimits) -> [(&'static str, String); 2] {
    [("size", size.bytes.to_string()), ("nr_inodes", size.inodes.to_string())]
}

fn file_system(
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

fn clone_tree(at: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
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
    create_file(at, path)?.write_all(contents.as_bytes())
}

fn create_file(at: BorrowedFd<'_>, path: &str) -> io::Result<File> {
    make_directories(at, parent(path))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::from_raw_mode(0o644))?.into())
}

fn is_directory(mount: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(mount)?.st_mode) == FileType::Directory)
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
