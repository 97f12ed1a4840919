//! The two containers of a pod: the init container that copies the guest, and the one that runs the
//! skill.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ResourceRequirements, SecurityContext, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::body::{GUEST, PodSettings, SKILL, bytes, seccomp, volume_name};
use crate::container_backend::{GUEST_DIRECTORY, GUEST_PROGRAM, NOBODY_UID};
use crate::launcher::Shape;
use crate::policy::WRITABLE;

/// Enough for the program that copies the guest.
const GUEST_MEMORY_BYTES: u64 = 64 << 20;
const GUEST_CPU_MILLIS: u32 = 100;

/// The container of the script. The guest is its first process, and sends nothing before it
/// receives its first frame.
pub(super) fn skill(shape: &Shape, settings: &PodSettings<'_>) -> Container {
    let scratch = WRITABLE.iter().map(|path| mount(volume_name(path), path, false));
    Container {
        command: Some(vec![GUEST_PROGRAM.to_owned(), "guest-stdio".to_owned()]),
        stdin: Some(true),
        // When our connection ends, the guest's input ends, and the guest exits. So a pod does not
        // outlive its worker.
        stdin_once: Some(true),
        tty: Some(false),
        resources: Some(resources(shape.cpu_millis, shape.memory_bytes, settings.ephemeral_bytes)),
        volume_mounts: Some(
            std::iter::once(mount(GUEST, GUEST_DIRECTORY, true)).chain(scratch).collect(),
        ),
        ..container(SKILL, settings.image, settings)
    }
}

/// The container that copies the guest into its volume. It never handles data of a tenant.
pub(super) fn guest(settings: &PodSettings<'_>) -> Container {
    let command = ["skillbox", "guest-copy", GUEST_DIRECTORY, settings.guest_digest];
    Container {
        command: Some(command.map(str::to_owned).to_vec()),
        // Its error output becomes our error message.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        resources: Some(resources(GUEST_CPU_MILLIS, GUEST_MEMORY_BYTES, settings.ephemeral_bytes)),
        volume_mounts: Some(vec![mount(GUEST, GUEST_DIRECTORY, false)]),
        ..container(GUEST, settings.guest_image, settings)
    }
}

fn container(name: &str, image: &str, settings: &PodSettings<'_>) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        working_dir: Some("/".to_owned()),
        security_context: Some(SecurityContext {
            privileged: Some(false),
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            run_as_user: Some(NOBODY_UID.into()),
            run_as_group: Some(NOBODY_UID.into()),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            seccomp_profile: Some(seccomp(settings)),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Requests equal to the limits, so that a pod is scheduled only where it gets all of them.
fn resources(cpu_millis: u32, memory_bytes: u64, ephemeral_bytes: u64) -> ResourceRequirements {
    let amounts: BTreeMap<String, Quantity> = [
        ("cpu".to_owned(), Quantity(format!("{cpu_millis}m"))),
        ("memory".to_owned(), bytes(memory_bytes)),
        ("ephemeral-storage".to_owned(), bytes(ephemeral_bytes)),
    ]
    .into();
    ResourceRequirements {
        limits: Some(amounts.clone()),
        requests: Some(amounts),
        ..ResourceRequirements::default()
    }
}

fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}
