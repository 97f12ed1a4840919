//! An inventory of everything that this test process created on the machine, taken outside of all
//! sandboxes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use bollard::query_parameters::{ListContainersOptionsBuilder, ListVolumesOptions};
use bollard::{API_DEFAULT_VERSION, Docker};
use guest::jail::UID_BASE;
use sandbox::Owner;

use crate::support::test_engine;

/// Processes, cgroups, mounts, files, and containers and volumes of the engine. Other programs on
/// the machine do not count, so two of these can be compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inventory {
    pub processes: BTreeMap<u32, String>,
    pub cgroups: BTreeSet<PathBuf>,
    pub mounts: BTreeSet<String>,
    pub directories: BTreeSet<PathBuf>,
    pub containers: BTreeSet<String>,
    pub volumes: BTreeSet<String>,
}

impl Inventory {
    pub(crate) async fn take() -> Self {
        let (containers, volumes) = on_engine().await;
        Inventory {
            containers,
            volumes,
            processes: processes(),
            cgroups: cgroups(),
            mounts: mounts(),
            directories: directories(),
        }
    }

    /// How many containers this owner has on the engine.
    pub(crate) async fn containers_of(owner: &Owner) -> usize {
        containers(&docker().await.unwrap(), |name| name == owner.0).await.len()
    }
}

/// The containers of launchers in this process, and all volumes but the guest's, where there is an
/// engine.
async fn on_engine() -> (BTreeSet<String>, BTreeSet<String>) {
    let Some(docker) = docker().await else { return Default::default() };
    let ours = format!("test-{}-", std::process::id());
    let volumes =
        docker.list_volumes(None::<ListVolumesOptions>).await.unwrap().volumes.unwrap_or_default();
    let containers = containers(&docker, |owner| owner.starts_with(&ours)).await;
    // That of the guest stays, one for each build of it.
    let names = volumes
        .into_iter()
        .map(|volume| volume.name)
        .filter(|name| !name.starts_with("skillbox-guest-"));
    (containers, names.collect())
}

async fn docker() -> Option<Docker> {
    let host = test_engine()?;
    let docker = if host.starts_with("unix:") {
        Docker::connect_with_unix(&host, 60, API_DEFAULT_VERSION).unwrap()
    } else {
        Docker::connect_with_http(&host, 60, API_DEFAULT_VERSION).unwrap()
    };
    Some(docker.negotiate_version().await.unwrap())
}

async fn containers(docker: &Docker, of: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let options = ListContainersOptionsBuilder::default().all(true).build();
    let all = docker.list_containers(Some(options)).await.unwrap().into_iter();
    let theirs = all.filter(|container| {
        let owner = container.labels.as_ref().and_then(|labels| labels.get("skillbox.owner"));
        owner.is_some_and(|owner| of(owner))
    });
    theirs.filter_map(|container| container.id).collect()
}

/// What the cgroups of launchers in this process are called.
fn own_prefix() -> String {
    format!("skillbox-{}-", std::process::id())
}

/// Every process that descends from this one or is in one of its cgroups, dead ones that nobody
/// reaped included.
fn processes() -> BTreeMap<u32, String> {
    let mut all: BTreeMap<u32, (u32, String)> = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end meanwhile.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((name, rest)) = stat.rsplit_once(')') else { continue };
        let Some(parent) = rest.split_whitespace().nth(1).and_then(|parent| parent.parse().ok())
        else {
            continue;
        };
        let groups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        let ours = groups.contains(&own_prefix());
        all.insert(pid, (if ours { std::process::id() } else { parent }, name.to_owned()));
    }
    let descends = |mut pid: u32| {
        while let Some((parent, _)) = all.get(&pid) {
            if *parent == std::process::id() {
                return true;
            }
            pid = *parent;
        }
        false
    };
    all.iter()
        .filter(|(pid, _)| descends(**pid))
        .map(|(pid, (_, name))| (*pid, name.clone()))
        .collect()
}

/// All but those of containers and pods: an engine or a cluster may work for others too, and ours
/// are counted by name.
fn mounts() -> BTreeSet<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let theirs = [" - overlay ", "/netns/", "/containers/", "/kubelet/", "/engine/data "];
    let of_containers = |line: &&str| theirs.iter().any(|part| line.contains(part));
    all.lines().filter(|line| !of_containers(line)).map(str::to_owned).collect()
}

/// Every directory below a mounted cgroup hierarchy that a launcher of this process made.
pub(crate) fn cgroups() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut look_in = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = look_in.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                look_in.push(entry.path());
                if entry
                    .path()
                    .iter()
                    .any(|part| part.to_str().is_some_and(|part| part.starts_with(&own_prefix())))
                {
                    found.insert(entry.path());
                }
            }
        }
    }
    found
}

/// What belongs to a user that only exists in sandboxes, in the places where programs leave things.
fn directories() -> BTreeSet<PathBuf> {
    let places = [std::env::temp_dir(), "/var/tmp".into(), "/dev/shm".into(), "/run".into()];
    let entries = places
        .iter()
        .flat_map(|place: &PathBuf| fs::read_dir(place).into_iter().flatten().flatten());
    let of_a_sandbox =
        |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.uid() >= UID_BASE);
    entries.map(|entry| entry.path()).filter(of_a_sandbox).collect()
}
