//! Images: this machine's own programs, under the names that registries have for them.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

/// An image that nodes can pull. Its contents are `/usr` of this machine, and what is named here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterImage {
    pub name: String,
    /// The user of containers that name none.
    pub user: u32,
    pub entrypoint: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Files in it, and where they come from.
    pub files: Vec<(String, PathBuf)>,
}

impl ClusterImage {
    /// With the usual path, and nothing else.
    pub fn new(name: &str) -> ClusterImage {
        let path = "/opt/image:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        ClusterImage {
            name: name.to_owned(),
            env: vec![("PATH".to_owned(), path.to_owned())],
            ..ClusterImage::default()
        }
    }

    /// What a registry calls its manifest: two images of different content never have the same.
    pub fn digest(&self) -> String {
        let hex: String =
            Sha256::digest(format!("{self:?}")).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    }

    /// Its name without the tag.
    pub fn repository(&self) -> &str {
        self.name.split_once(':').map_or(&self.name, |(repository, _)| repository)
    }

    /// With a program of this name in its `PATH`.
    pub fn with_program(mut self, name: &str, host: PathBuf) -> ClusterImage {
        self.files.push((format!("/opt/image/{name}"), host));
        self
    }
}
