//! A stand-in cluster for tests of Kubernetes clients: an API server that real clients cannot
//! distinguish from a real one in the requests they send here, one node that runs the pods, and
//! methods to make each part of it fail.
//!
//! **What it implements.** TLS and JSON like the real API: discovery, namespaced pods with `list`,
//! `watch`, `create`, `get` and `delete`, `SelfSubjectAccessReview`, and `pods/attach` over
//! websockets (`v4.channel.k8s.io` and `v5.channel.k8s.io`). Every request is checked against RBAC
//! rules, every new pod against the restricted Pod Security Standard and a `ResourceQuota`, with
//! the messages of the real plugins. The node runs each container with `runc`. Its configuration is
//! made from the pod like by a kubelet and a container runtime: user, capabilities, seccomp,
//! read-only root, memory and CPU in a cgroup, empty directories in memory with their size, and the
//! node's process limit per pod. So a container is as isolated as on a real node, and has no
//! restriction that its pod does not request.
//!
//! **What it does not implement.** It has one kind of object and one node. An image is this
//! machine's `/usr` under another name. A pod has its own network with only loopback, whatever its
//! namespace's policies are. Containers never restart, nothing is updated or patched, and lists
//! have no pages. `hostUsers: false` and `runtimeClassName` are stored and have no effect. Delays
//! are shorter where a real cluster would make a test wait (image pulls, bookmarks). It is tested
//! with clients of the real API: the `kube` crate, `kubectl` and the Python client.
//!
//! Only tests may depend on it. It needs root, and the programs `runc`, `unshare`, `nsenter` and
//! `openssl`.

#![forbid(unsafe_code)]

mod access;
mod admission;
mod api;
mod defaults;
mod faults;
mod node;
mod quantity;
mod selector;
mod server;
mod status_error;
mod store;
mod tls;
mod validation;

mod cluster;

pub use access::RbacRule;
pub use api::ClusterNamespace;
pub use cluster::{ClusterSettings, TestCluster, missing_requirement};
pub use faults::ResourceQuota;
/// The type in the results of this crate.
pub use k8s_openapi::api::core::v1::Pod;
pub use node::image::ClusterImage;
