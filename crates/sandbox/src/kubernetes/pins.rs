//! Which image a pod is asked for: by digest, as soon as a node has reported what a tag leads to.
//!
//! A worker has no access to registries, so the first pod of an image is asked for by its
//! configured name. Its status has the digest, and every later pod of this process is asked for by
//! that: a tag that is moved, or that another node has in an older version, changes nothing until
//! the worker is restarted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What a node reports as the image of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Of the manifest, by which a registry has it.
    Digest(String),
    /// Of an image that came to the node without a registry. It cannot be asked for.
    Id(String),
}

impl Identity {
    /// From `imageID`, which every container runtime writes in its own way:
    /// `docker.io/library/bash@sha256:…`, `docker-pullable://bash@sha256:…`, `docker://sha256:…`,
    /// `sha256:…`, or the hexadecimal digits alone.
    pub fn parse(image_id: &str) -> Option<Identity> {
        let text = image_id.rsplit_once("://").map_or(image_id, |(_, text)| text);
        let (repository, digest) = text.rsplit_once('@').unwrap_or(("", text));
        let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
        let is_digest =
            hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let identity = if repository.is_empty() { Identity::Id } else { Identity::Digest };
        is_digest.then(|| identity(format!("sha256:{hex}")))
    }
}

/// The images of a pod whose containers run, as far as its node reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RanImages {
    pub skill: Option<Identity>,
    pub guest: Option<Identity>,
}

/// The digests that names led to first.
#[derive(Debug, Default)]
pub struct Pins(Mutex<HashMap<String, String>>);

impl Pins {
    /// What a pod is asked for instead of `name`.
    pub fn reference(&self, name: &str) -> String {
        let pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pins.get(name)
            .map_or_else(|| name.to_owned(), |digest| format!("{}@{digest}", repository(name)))
    }

    /// Learns from a pod that was asked for as `asked`. False when it runs another image than other
    /// pods of this name since one of them was heard of first: it must not be used.
    pub fn keep(&self, name: &str, asked: &str, ran: Option<&Identity>) -> bool {
        let Some(Identity::Digest(ran)) = ran else { return true };
        if has_digest(asked) {
            if !asked.ends_with(ran.as_str()) {
                // Some runtimes name the manifest of a platform where its index was asked for. What
                // runs is what was asked for all the same: a runtime checks digests.
                tracing::debug!(
                    asked,
                    ran,
                    "a node reports another digest of an image than was asked for"
                );
            }
            return true;
        }
        let mut pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pin = pins.entry(name.to_owned()).or_insert_with(|| {
            tracing::info!(
                image = name,
                digest = ran,
                "pods of this worker keep to this digest of the image"
            );
            ran.clone()
        });
        pin == ran
    }
}

/// How an image is reported: by its digest or its id, and by its name when its node says neither.
pub fn reported(name: &str, ran: Option<&Identity>) -> String {
    match ran {
        Some(Identity::Digest(digest)) => format!("{}@{digest}", repository(name)),
        Some(Identity::Id(id)) => id.clone(),
        None => name.to_owned(),
    }
}

pub fn has_digest(name: &str) -> bool {
    name.contains("@sha256:")
}

/// A name without its tag and digest. A colon before the last slash belongs to the registry's port.
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
    fn every_runtime_is_understood() {
        let (digest, hex) = (sha('a'), "a".repeat(64));
        for text in [
            format!("docker.io/library/bash@{digest}"),
            format!("docker-pullable://r.example:5000/b@{digest}"),
        ] {
            assert_eq!(Identity::parse(&text), Some(Identity::Digest(digest.clone())), "{text}");
        }
        for text in [digest.clone(), format!("docker://{digest}"), hex.clone()] {
            assert_eq!(Identity::parse(&text), Some(Identity::Id(digest.clone())), "{text}");
        }
        for text in
            ["", "bash:5", "bash@sha256:aa", &format!("bash@sha512:{hex}"), &hex.to_uppercase()]
        {
            assert_eq!(Identity::parse(text), None, "{text}");
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
    fn the_first_digest_of_a_name_stays() {
        let pins = Pins::default();
        let (first, moved) = (Identity::Digest(sha('1')), Identity::Digest(sha('2')));
        assert_eq!(pins.reference("bash:5"), "bash:5");
        assert!(pins.keep("bash:5", "bash:5", Some(&first)));
        let pinned = format!("bash@{}", sha('1'));
        assert_eq!(pins.reference("bash:5"), pinned);
        // A pod that was asked for by name at the same time, and found the tag moved.
        assert!(!pins.keep("bash:5", "bash:5", Some(&moved)));
        assert!(
            pins.keep("bash:5", &pinned, Some(&moved)),
            "asked for by digest, it is what was asked for"
        );
        assert_eq!(pins.reference("bash:5"), pinned);
        assert_eq!(pins.reference("node:20"), "node:20", "each name has its own");
    }

    #[test]
    fn what_cannot_be_pinned_is_reported_as_far_as_it_is_known() {
        let pins = Pins::default();
        for unknown in [None, Some(Identity::Id(sha('1')))] {
            assert!(pins.keep("bash:5", "bash:5", unknown.as_ref()));
            assert_eq!(pins.reference("bash:5"), "bash:5");
        }
        assert_eq!(reported("bash:5", None), "bash:5");
        assert_eq!(reported("bash:5", Some(&Identity::Id(sha('1')))), sha('1'));
        assert_eq!(
            reported("r:5/bash:5", Some(&Identity::Digest(sha('1')))),
            format!("r:5/bash@{}", sha('1'))
        );
    }
}
