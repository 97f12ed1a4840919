//! Ids of our containers and of allowed images, as the engine has reported them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use crate::config::ContainerPolicy;

/// Positive results only. An id is never reused and requests go to the engine by id, so a positive
/// result stays valid, while a missing object can be created at any time.
#[derive(Default)]
pub(crate) struct EngineCache {
    /// Ids by id and by name.
    containers: Mutex<HashMap<String, String>>,
    images: Mutex<HashSet<String>>,
}

/// A full cache is emptied, and its entries are requested again.
const MAX_CACHED_IDS: usize = 16_384;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct InspectedImage {
    id: String,
    repo_digests: Option<Vec<String>>,
    config: Option<ImageConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImageConfig {
    volumes: Option<HashMap<String, serde::de::IgnoredAny>>,
}

impl InspectedImage {
    /// The engine creates an anonymous volume, without a label, for each of them with every
    /// container.
    fn volume_count(&self) -> usize {
        let volumes = self.config.as_ref().and_then(|config| config.volumes.as_ref());
        volumes.map_or(0, HashMap::len)
    }

    /// The ids and digests by which a container may name the image instead of its tag.
    fn into_names(self) -> impl Iterator<Item = String> {
        std::iter::once(self.id)
            .chain(self.repo_digests.into_iter().flatten())
            .filter(|name| name.contains("sha256:"))
    }
}

impl EngineCache {
    pub(crate) fn container_id(&self, name: &str) -> Option<String> {
        lock(&self.containers).get(name).cloned()
    }

    pub(crate) fn has_image(&self, image: &str) -> bool {
        lock(&self.images).contains(image)
    }

    /// Adds the container in the engine's response to a creation, by its id and its name.
    pub(crate) fn add_created_container(&self, name: Option<&str>, response: &[u8]) {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct CreatedContainer {
            id: String,
        }
        // A response in another format is forwarded to the launcher and adds nothing here.
        if let Ok(CreatedContainer { id }) = serde_json::from_slice(response) {
            self.add_container(name.unwrap_or(&id), &id);
        }
    }

    /// Adds the image in the engine's response to the inspection of an allowed image.
    pub(crate) fn add_inspected_image(&self, response: &[u8], policy: &ContainerPolicy) {
        if let Ok(found) = serde_json::from_slice::<InspectedImage>(response) {
            self.add_image(found, policy);
        }
    }

    /// Removes a container with all of its names: a name may be reused for another container.
    pub(crate) fn forget_container(&self, id: &str) {
        lock(&self.containers).retain(|_, cached| cached != id);
    }

    pub(crate) fn add_container(&self, name: &str, id: &str) {
        let mut containers = lock(&self.containers);
        if containers.len() >= MAX_CACHED_IDS {
            containers.clear();
        }
        containers.extend([name, id].map(|name| (name.to_owned(), id.to_owned())));
    }

    /// Adds an image; false when the policy does not allow containers from it.
    pub(crate) fn add_image(&self, found: InspectedImage, policy: &ContainerPolicy) -> bool {
        if found.volume_count() > policy.max_image_volumes {
            return false;
        }
        let mut images = lock(&self.images);
        if images.len() >= MAX_CACHED_IDS {
            images.clear();
        }
        images.extend(found.into_names());
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
