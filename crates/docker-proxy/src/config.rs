//! The operator's configuration: addresses, the policy for containers, and limits.

use std::time::Duration;

use crate::address::Address;

/// The configuration of a proxy.
#[derive(Debug, Clone)]
pub struct ProxyConfig {
    pub listen: Address,
    pub engine: Address,
    /// Names of this proxy in a `Host` header, besides loopback ones and the address it listens at.
    pub hosts: Vec<String>,
    pub policy: ContainerPolicy,
    pub limits: ProxyLimits,
}

/// What a container may be, in addition to the rules that apply to all of them.
#[derive(Debug, Clone)]
pub struct ContainerPolicy {
    /// The value of [`crate::PROXY_LABEL`] on everything that this proxy creates. Objects without
    /// it are not visible to clients.
    pub instance: String,
    /// Names of images, exactly as launchers request them.
    pub images: Vec<String>,
    /// Names of OCI runtimes that may be requested; without any, only the engine's default.
    pub runtimes: Vec<String>,
    /// The only allowed seccomp profiles, as the JSON text in a create body.
    pub seccomp: Vec<String>,
    /// The start of the entrypoint of the container that fills the guest's volume, before its
    /// arguments. If empty, no volume can be written.
    pub filler: Vec<String>,
    /// Of a container, and of each of its tmpfs mounts.
    pub max_memory_bytes: i64,
    pub max_nano_cpus: i64,
    pub max_pids: i64,
    /// Size of the program in a guest volume, and of any file that its filler writes.
    pub max_guest_bytes: i64,
    /// The only working directories, by their exact paths.
    pub working_dirs: Vec<String>,
    /// Volumes that an image may declare. For each of them the engine creates a volume without a
    /// size limit with every container.
    pub max_image_volumes: usize,
    /// Volumes with this proxy's label.
    pub max_volumes: usize,
}

/// Time and size limits.
#[derive(Debug, Clone)]
pub struct ProxyLimits {
    /// Concurrent connections, including streams to running sandboxes. Further ones wait in the
    /// backlog.
    pub max_connections: usize,
    pub max_body_bytes: usize,
    pub max_response_bytes: usize,
    /// For receiving the head of a request, and for receiving its body.
    pub request_timeout: Duration,
    /// For connecting to the engine.
    pub connect_timeout: Duration,
    /// For a response of the engine.
    pub response_timeout: Duration,
    /// For a whole connection that neither waits for a container nor streams to one.
    pub exchange_timeout: Duration,
    /// For the output of a container after its input was closed.
    pub half_closed_timeout: Duration,
    /// For requests and streams that are open when the proxy shuts down.
    pub drain_timeout: Duration,
    /// Containers that fill a volume, started within `fill_window`. A killed one leaves a file in
    /// its volume.
    pub max_fills: usize,
    pub fill_window: Duration,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        ProxyLimits {
            max_connections: 1024,
            max_body_bytes: 256 << 10,
            max_response_bytes: 16 << 20,
            request_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(120),
            exchange_timeout: Duration::from_secs(300),
            half_closed_timeout: Duration::from_secs(3600),
            drain_timeout: Duration::from_secs(15),
            max_fills: 32,
            fill_window: Duration::from_secs(600),
        }
    }
}
