//! The volumes of one pod: its empty directories, mounted in a mount namespace of the pod.
//!
//! Each pod has a process that keeps the mount namespace alive, like the pause container of a real
//! pod. The mounts disappear with that process. It exits when its input ends, so it never outlives
//! the test process, even if that is killed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use k8s_openapi::api::core::v1::{Pod, Volume};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::quantity::units;

/// Creates the mounts in its arguments, three arguments each, and then waits for the end of its
/// input.
const HOLDER_SCRIPT: &str = r#"
while [ $# -gt 0 ]; do
    if [ "$1" = tmpfs ]; then mount -t tmpfs -o "$2" tmpfs "$3" || exit 1; else mkdir -p -m 0777 "$3" || exit 1; fi
    shift 3
done
echo held
exec cat >/dev/null
"#;

pub(crate) struct PodVolumes {
    holder: Child,
    pid: u32,
    directory: PathBuf,
}

impl PodVolumes {
    /// Creates the volumes below `directory`.
    pub(crate) async fn make(pod: &Pod, directory: &Path) -> io::Result<PodVolumes> {
        let spec = pod.spec.clone().unwrap_or_default();
        let group = spec.security_context.clone().unwrap_or_default().fs_group;
        let mut orders: Vec<String> = Vec::new();
        for volume in spec.volumes.iter().flatten() {
            let place = directory.join(&volume.name);
            tokio::fs::create_dir_all(&place).await?;
            // The modes that a kubelet sets: writable for all, with setgid if the pod has an
            // `fsGroup`.
            let mode = if group.is_some() { 0o2777 } else { 0o777 };
            std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
            if let Some(options) = in_memory(volume, mode, group) {
                orders.extend(["tmpfs".to_owned(), options, place.to_string_lossy().into_owned()]);
            }
        }
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        for mount in containers.flat_map(|container| container.volume_mounts.iter().flatten()) {
            if let Some(path) = &mount.sub_path {
                let place = directory.join(&mount.name).join(path);
                orders.extend([
                    "directory".to_owned(),
                    String::new(),
                    place.to_string_lossy().into_owned(),
                ]);
            }
        }
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", HOLDER_SCRIPT, "hold"])
            .args(&orders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pid = holder.id().ok_or(io::ErrorKind::NotFound)?;
        let mut line = String::new();
        if let Some(stdout) = holder.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).await?;
        }
        if line.trim() != "held" {
            return Err(io::Error::other("the volumes could not be mounted"));
        }
        Ok(PodVolumes { holder, pid, directory: directory.to_owned() })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A command in the mount namespace with the volumes.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.pid)).arg("--").arg(program);
        command
    }

    pub(crate) async fn end(mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.kill().await;
    }
}

/// The mount options of a volume in memory; `None` for one on the node's disk.
fn in_memory(volume: &Volume, mode: u32, group: Option<i64>) -> Option<String> {
    let empty =
        volume.empty_dir.as_ref().filter(|empty| empty.medium.as_deref() == Some("Memory"))?;
    let mut options = format!("mode={mode:o}");
    if let Some(bytes) = empty.size_limit.as_ref().and_then(units) {
        options += &format!(",size={bytes}");
    }
    if let Some(group) = group {
        options += &format!(",gid={group}");
    }
    Some(options)
}
