//! What an operator decides: where, what may be created, and how long and how large things may be.

use std::time::Duration;

use crate::address::Address;

/// Everything a proxy needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: Address,
    pub engine: Address,
    /// Names in a `Host` header that lead to this proxy, besides loopback ones and the address it
    /// listens at.
    pub hosts: Vec<String>,
    pub policy: Policy,
    pub limits: Limits,
}

/// What a container made through this proxy may be, beyond what holds for all of them.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Goes on everything this proxy makes, as the value of [`crate::LABEL`]. What does not carry
    /// it does not exist.
    pub instance: String,
    /// Names of images, exactly as a launcher asks for them.
    pub images: Vec<String>,
    /// Names of OCI runtimes that may be asked for; without any, only the engine's default.
    pub runtimes: Vec<String>,
    /// Seccomp profiles, as the JSON text that stands in a create body. No other is let through.
    pub seccomp: Vec<String>,
    /// The words that the container which fills the guest's volume starts with, before its
    /// arguments. Without any, no volume can be written.
    pub filler: Vec<String>,
    /// Of a container, and of each of its memory file systems.
    pub max_memory_bytes: i64,
    pub max_nano_cpus: i64,
    pub max_pids: i64,
    /// Of the program that is put into a guest volume, and of any file that its filler writes.
    pub max_guest_bytes: i64,
    /// The only working directories, by their exact paths.
    pub working_dirs: Vec<String>,
    /// Volumes that an image may declare. For each one the engine makes an unbounded one with every
    /// container.
    pub max_image_volumes: usize,
    /// Volumes that carry this proxy's label, all together.
    pub max_volumes: usize,
}

/// How long and how large.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time, streams to running sandboxes included. More wait to be accepted.
    pub connections: usize,
    pub body_bytes: usize,
    pub answer_bytes: usize,
    /// Until the head of a request is there, and until its body is.
    pub request: Duration,
    /// Until the engine accepts a connection.
    pub connect: Duration,
    /// Until the engine has answered.
    pub answer: Duration,
    /// For a whole connection that neither waits for a container nor streams to one.
    pub exchange: Duration,
    /// For what a container still says after its input was closed.
    pub half_closed: Duration,
    /// For what is under way when the proxy is told to stop.
    pub drain: Duration,
    /// Containers that fill a volume, started within `fill_window`. A killed one leaves a file in
    /// its volume.
    pub fills: usize,
    pub fill_window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1024,
            body_bytes: 256 << 10,
            answer_bytes: 16 << 20,
            request: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(120),
            exchange: Duration::from_secs(300),
            half_closed: Duration::from_secs(3600),
            drain: Duration::from_secs(15),
            fills: 32,
            fill_window: Duration::from_secs(600),
        }
    }
}
