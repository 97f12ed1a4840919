//! Discovers the cgroup hierarchies of this machine.

use guest::jail::CgroupController;
use std::fs;
use std::path::{Path, PathBuf};

/// The controllers that sandboxes need, with their names.
pub(super) const CONTROLLERS: [(CgroupController, &str); 3] = [
    (CgroupController::Memory, "memory"),
    (CgroupController::Pids, "pids"),
    (CgroupController::Cpu, "cpu"),
];

/// The prefix of our directories.
pub(super) const PREFIX: &str = "skillbox-";

/// The suffix of the leaf that a service moves itself to: a v2 cgroup with controllers enabled for
/// its children must not contain a process.
pub(super) const SERVER_LEAF: &str = "server";

/// The cgroup hierarchies that this process sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hierarchy {
    None,
    V2(PathBuf),
    V1(Vec<(CgroupController, PathBuf)>),
}

impl Hierarchy {
    pub(super) fn find() -> Hierarchy {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Hierarchy::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"), |group| {
            fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default()
        })
    }

    /// The unified hierarchy if it has controllers, else each controller's own.
    fn parse(mountinfo: &str, own: &str, controllers_of: impl Fn(&Path) -> String) -> Hierarchy {
        let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
        let own_path = |key: &str| {
            own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                (parts.next()?.split(',').any(|name| name == key)).then(|| parts.next())?
            })
        };
        let unified = mounts.iter().find(|mount| mount.kind == "cgroup2");
        if let Some(group) = unified.and_then(|mount| Some(mount.group(own_path("")?))) {
            // On a hybrid system, the unified hierarchy may have none of the controllers that are
            // needed here.
            if controllers_of(&group)
                .split_whitespace()
                .any(|name| CONTROLLERS.iter().any(|(_, ours)| *ours == name))
            {
                return Hierarchy::V2(without_leaf(group));
            }
        }
        let v1 = CONTROLLERS.iter().filter_map(|(controller, name)| {
            let mount = mounts
                .iter()
                .find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == *name))?;
            Some((*controller, mount.group(own_path(name)?)))
        });
        let v1: Vec<_> = v1.collect();
        if v1.is_empty() { Hierarchy::None } else { Hierarchy::V1(v1) }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Hierarchy::None => "none",
            Hierarchy::V2(_) => "cgroup v2",
            Hierarchy::V1(_) => "cgroup v1",
        }
    }
}

/// One line of `/proc/self/mountinfo`.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let mut right = right.split(' ');
        let (root, point) = (left.next()?, left.next()?);
        let (kind, options) = (right.next()?, right.nth(1)?);
        kind.starts_with("cgroup").then_some(Mount { root, point, kind, options })
    }

    /// The directory of a cgroup. In a container the mount may show only a part of the hierarchy.
    fn group(&self, path: &str) -> PathBuf {
        let inside = path.strip_prefix(self.root).unwrap_or(path).trim_start_matches('/');
        let group = Path::new(self.point).join(inside);
        if group.is_dir() { group } else { PathBuf::from(self.point) }
    }
}

/// If this service was started by another service, which is in its leaf, use that leaf's parent:
/// the leaf itself must not get children.
fn without_leaf(group: PathBuf) -> PathBuf {
    let is_leaf = group
        .file_name()
        .and_then(|n| n.to_str())
        .is_some_and(|n| n.starts_with(PREFIX) && n.ends_with(SERVER_LEAF));
    match group.parent() {
        Some(parent) if is_leaf => parent.to_owned(),
        _ => group,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
33 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
34 24 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";

    #[test]
    fn uses_v1_hierarchies_when_the_unified_one_has_no_controllers() {
        let own = "3:pids:/\n2:memory:/\n1:cpu,cpuacct:/\n0::/\n";
        let Hierarchy::V1(groups) = Hierarchy::parse(V1, own, |_| "hugetlb\n".into()) else {
            panic!("not v1")
        };
        let controllers: Vec<_> = groups.iter().map(|(controller, _)| *controller).collect();
        assert_eq!(
            controllers,
            [CgroupController::Memory, CgroupController::Pids, CgroupController::Cpu]
        );
        assert_eq!(groups[2].1, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
    }

    #[test]
    fn prefers_the_unified_hierarchy_with_controllers() {
        let mountinfo = "31 24 0:27 / /nowhere rw - cgroup2 cgroup2 rw\n";
        let found = Hierarchy::parse(mountinfo, "0::/user.slice\n", |_| "cpu memory pids\n".into());
        assert_eq!(found, Hierarchy::V2("/nowhere".into()));
    }

    #[test]
    fn no_mounts_means_no_hierarchy() {
        assert_eq!(Hierarchy::parse("", "0::/\n", |_| String::new()), Hierarchy::None);
    }
}
