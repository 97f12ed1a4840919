//! Images: this machine's own programs, under image names.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

/// An image that nodes can pull. It contains `/usr` of this machine and the files listed here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterImage {
    pub name: String,
    /// The default user of containers.
    pub user: u32,
    pub entrypoint: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Additional files: path in the image and source path.
    pub files: Vec<(String, PathBuf)>,
}

impl ClusterImage {
    /// An image with the usual `PATH` only.
    pub fn new(name: &str) -> ClusterImage {
        let path = "/opt/image:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        ClusterImage {
            name: name.to_owned(),
            env: vec![("PATH".to_owned(), path.to_owned())],
            ..ClusterImage::default()
        }
    }

    /// The digest of its manifest. Images of different content have different digests.
    pub fn digest(&self) -> String {
        let hex: String =
            Sha256::digest(format!("{self:?}")).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    }

    /// Its name without the tag.
    pub fn repository(&self) -> &str {
        self.name.split_once(':').map_or(&self.name, |(repository, _)| repository)
    }

    /// Adds a program of this name to its `PATH`.
    pub fn with_program(mut self, name: &str, host: PathBuf) -> ClusterImage {
        self.files.push((format!("/opt/image/{name}"), host));
        self
    }
}
