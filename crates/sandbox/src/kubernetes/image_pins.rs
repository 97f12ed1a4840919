//! Pins images to digests, as soon as a node has reported the digest of a tag.
//!
//! A worker has no access to registries, so it requests the first pod of an image by the configured
//! name. The pod's status has the digest, and the worker requests every later pod by that digest.
//! So a tag that is moved, or that another node has in an older version, has no effect until the
//! worker restarts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The image of a container, as its node reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ImageIdentity {
    /// The digest of the manifest in a registry.
    Digest(String),
    /// The id of an image that was loaded onto the node without a registry. It cannot be requested.
    Id(String),
}

impl ImageIdentity {
    /// Parses `imageID`, which every container runtime formats differently:
    /// `docker.io/library/bash@sha256:…`, `docker-pullable://bash@sha256:…`, `docker://sha256:…`,
    /// `sha256:…`, or the hexadecimal digits alone.
    pub(super) fn parse(image_id: &str) -> Option<ImageIdentity> {
        let text = image_id.rsplit_once("://").map_or(image_id, |(_, text)| text);
        let (repository, digest) = text.rsplit_once('@').unwrap_or(("", text));
        let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
        let is_digest =
            hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let identity =
            if repository.is_empty() { ImageIdentity::Id } else { ImageIdentity::Digest };
        is_digest.then(|| identity(format!("sha256:{hex}")))
    }
}

/// The images of a running pod, as far as its node reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RunningImages {
    pub skill: Option<ImageIdentity>,
    pub guest: Option<ImageIdentity>,
}

/// The first digest of each image name.
#[derive(Debug, Default)]
pub(super) struct ImagePins(Mutex<HashMap<String, String>>);

impl ImagePins {
    /// The reference to request instead of `name`: by digest, once it is pinned.
    pub(super) fn reference(&self, name: &str) -> String {
        let pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pins.get(name)
            .map_or_else(|| name.to_owned(), |digest| format!("{}@{digest}", repository(name)))
    }

    /// Pins the digest of a pod that was requested as `requested`, or compares it with the pinned
    /// one. False when another digest was pinned for this name: the pod must not be used.
    pub(super) fn check_or_pin(
        &self,
        name: &str,
        requested: &str,
        running: Option<&ImageIdentity>,
    ) -> bool {
        let Some(ImageIdentity::Digest(running)) = running else { return true };
        if has_digest(requested) {
            if !requested.ends_with(running.as_str()) {
                // For a requested index some runtimes report the digest of the platform's manifest.
                // The image is still the requested one, because a runtime verifies digests.
                tracing::debug!(
                    requested,
                    running,
                    "a node reports another digest of an image than the requested one"
                );
            }
            return true;
        }
        let mut pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pin = pins.entry(name.to_owned()).or_insert_with(|| {
            tracing::info!(
                image = name,
                digest = running,
                "pinned the image to this digest for the lifetime of this worker"
            );
            running.clone()
        });
        pin == running
    }
}

/// The image in reports: with its digest or id, or by its name when its node reports neither.
pub(super) fn describe_image(name: &str, running: Option<&ImageIdentity>) -> String {
    match running {
        Some(ImageIdentity::Digest(digest)) => format!("{}@{digest}", repository(name)),
        Some(ImageIdentity::Id(id)) => id.clone(),
        None => name.to_owned(),
    }
}

pub(super) fn has_digest(name: &str) -> bool {
    name.contains("@sha256:")
}

/// A name without its tag and digest. A colon before the last slash belongs to the port of the
/// registry.
fn repository(name: &str) -> &str {
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    name[last..].find(':').map_or(name, |colon| &name[..last + colon])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(digit: char) -> String {
        format!("sha256:{}", digit.to_string().repeat(64))
    }

    #[test]
    fn image_ids_of_all_runtimes_are_parsed() {
        let (digest, hex) = (sha('a'), "a".repeat(64));
        for text in [
            format!("docker.io/library/bash@{digest}"),
            format!("docker-pullable://r.example:5000/b@{digest}"),
        ] {
            assert_eq!(
                ImageIdentity::parse(&text),
                Some(ImageIdentity::Digest(digest.clone())),
                "{text}"
            );
        }
        for text in [digest.clone(), format!("docker://{digest}"), hex.clone()] {
            assert_eq!(
                ImageIdentity::parse(&text),
                Some(ImageIdentity::Id(digest.clone())),
                "{text}"
            );
        }
        for text in
            ["", "bash:5", "bash@sha256:aa", &format!("bash@sha512:{hex}"), &hex.to_uppercase()]
        {
            assert_eq!(ImageIdentity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_repository_keeps_its_port() {
        for (name, expected) in [
            ("bash", "bash"),
            ("bash:5", "bash"),
            ("r.example:5000/team/bash", "r.example:5000/team/bash"),
            ("r.example:5000/team/bash:5", "r.example:5000/team/bash"),
            ("bash:5@sha256:aa", "bash"),
        ] {
            assert_eq!(repository(name), expected);
        }
    }

    #[test]
    fn the_first_digest_of_a_name_is_pinned() {
        let pins = ImagePins::default();
        let (first, moved) = (ImageIdentity::Digest(sha('1')), ImageIdentity::Digest(sha('2')));
        assert_eq!(pins.reference("bash:5"), "bash:5");
        assert!(pins.check_or_pin("bash:5", "bash:5", Some(&first)));
        let pinned = format!("bash@{}", sha('1'));
        assert_eq!(pins.reference("bash:5"), pinned);
        // A concurrent pod that was requested by name, after the tag was moved.
        assert!(!pins.check_or_pin("bash:5", "bash:5", Some(&moved)));
        assert!(
            pins.check_or_pin("bash:5", &pinned, Some(&moved)),
            "a pod requested by digest is accepted"
        );
        assert_eq!(pins.reference("bash:5"), pinned);
        assert_eq!(pins.reference("node:20"), "node:20", "each name has its own pin");
    }

    #[test]
    fn unpinnable_images_are_described_as_far_as_known() {
        let pins = ImagePins::default();
        for unknown in [None, Some(ImageIdentity::Id(sha('1')))] {
            assert!(pins.check_or_pin("bash:5", "bash:5", unknown.as_ref()));
            assert_eq!(pins.reference("bash:5"), "bash:5");
        }
        assert_eq!(describe_image("bash:5", None), "bash:5");
        assert_eq!(describe_image("bash:5", Some(&ImageIdentity::Id(sha('1')))), sha('1'));
        assert_eq!(
            describe_image("r:5/bash:5", Some(&ImageIdentity::Digest(sha('1')))),
            format!("r:5/bash@{}", sha('1'))
        );
    }
}
