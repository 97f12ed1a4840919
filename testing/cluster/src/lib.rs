//! A stand-in for a Kubernetes cluster, for tests: an API server that real clients cannot tell from
//! a real one in what they ask of it here, one node behind it that runs what pods say, and a way to
//! make each part of it fail.
//!
//! **What it is.** It speaks TLS and JSON as the API does: discovery, namespaced pods by `list`,
//! `watch`, `create`, `get` and `delete`, `SelfSubjectAccessReview`, and `pods/attach` over
//! websockets (`v4.channel.k8s.io` and `v5.channel.k8s.io`). Every request is checked against rules
//! as RBAC has them, every new pod against the restricted Pod Security Standard and a
//! `ResourceQuota`, in the words of the real plugins. The node runs each container with `runc`,
//! from a configuration made of the pod as a kubelet and a container runtime make it: user,
//! capabilities, seccomp, read-only root, memory and CPU in a control group, empty directories in
//! memory with their size, a limit on processes for the pod as a node sets it. So a container is as
//! isolated as on a real node, and what a pod forgets to ask for is not there.
//!
//! **What it is not.** It has one kind of object and one node; an image is this machine's `/usr`
//! under another name; a pod has a network of its own with nothing but loopback, whatever policies
//! a namespace would have; a container is never started twice; nothing is updated or patched; lists
//! are not cut into pages; `hostUsers: false` and `runtimeClassName` are stored and not acted upon;
//! time goes faster where a real cluster would let a test wait (image pulls, bookmarks). Clients
//! that know the real one, the `kube` crate, `kubectl` and the Python client, are its tests.
//!
//! Nobody but tests may depend on it. It needs root, and the programs `runc`, `unshare`, `nsenter`
//! and `openssl`.

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
/// What tests look at.
pub use k8s_openapi::api::core::v1::Pod;
pub use node::image::ClusterImage;
