//! What is ours on the engine: containers, volumes and images, as the engine itself tells.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::config::Policy;
use crate::engine::Engine;
use crate::labels::LABEL;
use crate::names;
use crate::refusal::{Checked, Refusal, forbidden};

/// What the engine has said. An id never changes hands, and requests go on with ids, so a good
/// answer stays good.
#[derive(Default)]
pub struct Known {
    /// Ids by id and by name.
    containers: Mutex<HashMap<String, String>>,
    images: Mutex<HashSet<String>>,
}

/// More are forgotten, and asked for again.
const MOST_KNOWN: usize = 16_384;

/// Docker leaves `Labels` null where there are none.
type Labels = Option<HashMap<String, String>>;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ContainerFound {
    id: String,
    config: ConfigFound,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigFound {
    labels: Labels,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VolumeFound {
    name: String,
    driver: String,
    labels: Labels,
    options: Option<HashMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VolumesFound {
    volumes: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImageFound {
    id: String,
    repo_digests: Option<Vec<String>>,
    config: Option<ImageConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImageConfig {
    volumes: Option<HashMap<String, serde::de::IgnoredAny>>,
}

/// The engine's own view, narrowed to what carries our label.
pub struct Owned<'a> {
    pub engine: &'a Engine,
    pub policy: &'a Policy,
    pub known: &'a Known,
}

impl Owned<'_> {
    /// The id of the container of this id or name, if it is ours.
    pub async fn container(&self, name: &str) -> Checked<String> {
        const HIDDEN: Refusal = Refusal::Hidden("container");
        if !names::is_id(name) && !names::is_ours(name) {
            return Err(HIDDEN);
        }
        if let Some(id) = lock(&self.known.containers).get(name) {
            return Ok(id.clone());
        }
        let found: Option<ContainerFound> =
            self.engine.look_up(format!("/containers/{name}/json")).await?;
        let found = found
            .filter(|found| names::is_id(&found.id) && self.ours(&found.config.labels))
            .ok_or(HIDDEN)?;
        self.known.keep_container(name, &found.id);
        Ok(found.id)
    }

    /// Whether the volume is ours; an error when it is there and is not.
    pub async fn volume(&self, name: &str) -> Checked<bool> {
        const HIDDEN: Refusal = Refusal::Hidden("volume");
        if !names::is_ours(name) {
            return Err(HIDDEN);
        }
        let Some(found) = self.engine.look_up::<VolumeFound>(format!("/volumes/{name}")).await?
        else {
            return Ok(false);
        };
        let plain =
            found.driver == "local" && found.options.is_none_or(|options| options.is_empty());
        if found.name == name && plain && self.ours(&found.labels) { Ok(true) } else { Err(HIDDEN) }
    }

    /// Whether one more volume of ours may be made.
    pub async fn room_for_a_volume(&self) -> Checked {
        let filters =
            serde_json::json!({"label": [format!("{LABEL}={}", self.policy.instance)]}).to_string();
        let filters = utf8_percent_encode(&filters, NON_ALPHANUMERIC);
        let found: Option<VolumesFound> =
            self.engine.look_up(format!("/volumes?filters={filters}")).await?;
        let found = found.and_then(|found| found.volumes).map_or(0, |volumes| volumes.len());
        if found < self.policy.max_volumes {
            return Ok(());
        }
        forbidden(format!(
            "one more volume: there are {found} of this proxy, and it allows {} (--max-volumes). Remove those of old \
             versions on the engine: docker volume ls --filter label={LABEL}={}",
            self.policy.max_volumes, self.policy.instance
        ))
    }

    /// Whether the image may be looked at: an allowed name, or what such a name was resolved to.
    pub async fn visible_image(&self, image: &str) -> Checked {
        if self.allowed(image) { Ok(()) } else { self.image(image).await }
    }

    /// Whether a container may be made of this image: as [`Owned::visible_image`], and one without
    /// volumes of its own.
    pub async fn image(&self, image: &str) -> Checked {
        if lock(&self.known.images).contains(image) {
            return Ok(());
        }
        if self.allowed(image) {
            return match self.resolve(image).await? {
                Some(false) => forbidden(format!(
                    "the image {image:?}: it declares volumes, which nothing bounds"
                )),
                // The engine says best what it does not have.
                Some(true) | None => Ok(()),
            };
        }
        // A restarted proxy has forgotten what it resolved, and a launcher has not. Only what looks
        // like the outcome of a resolution is worth asking for.
        if image.contains("sha256:") {
            for name in &self.policy.images {
                self.resolve(name).await?;
            }
        }
        if lock(&self.known.images).contains(image) {
            return Ok(());
        }
        forbidden(format!("the image {image:?}; add its name to the allowlist"))
    }

    pub fn allowed(&self, image: &str) -> bool {
        self.policy.images.iter().any(|name| name == image)
    }

    /// Learns the ids behind a name; `Some(false)` where no container may be made of them.
    async fn resolve(&self, name: &str) -> Checked<Option<bool>> {
        let found: Option<ImageFound> = self.engine.look_up(format!("/images/{name}/json")).await?;
        Ok(found.map(|found| self.known.keep_images(found, self.policy)))
    }

    fn ours(&self, labels: &Labels) -> bool {
        labels
            .as_ref()
            .and_then(|labels| labels.get(LABEL))
            .is_some_and(|instance| *instance == self.policy.instance)
    }
}

impl ImageFound {
    /// For each one the engine makes a volume without a name or a label with every container.
    fn volume_count(&self) -> usize {
        let volumes = self.config.as_ref().and_then(|config| config.volumes.as_ref());
        volumes.map_or(0, HashMap::len)
    }

    /// What a container may name it by instead of its tag.
    fn names(self) -> impl Iterator<Item = String> {
        std::iter::once(self.id)
            .chain(self.repo_digests.into_iter().flatten())
            .filter(|name| name.contains("sha256:"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    /// Learns from the engine's answer to a creation under this name, if it had one.
    pub fn created(&self, name: Option<&str>, answer: &[u8]) {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Created {
            id: String,
        }
        // An answer that says something else is shown to the launcher as it is, and teaches us
        // nothing.
        if let Ok(Created { id }) = serde_json::from_slice(answer) {
            self.keep_container(name.unwrap_or(&id), &id);
        }
    }

    /// Learns from the engine's answer about an allowed image.
    pub fn resolved(&self, answer: &[u8], policy: &Policy) {
        if let Ok(found) = serde_json::from_slice::<ImageFound>(answer) {
            self.keep_images(found, policy);
        }
    }

    /// A name may come again, with another container behind it.
    pub fn forget_container(&self, id: &str) {
        lock(&self.containers).retain(|_, known| known != id);
    }

    fn keep_container(&self, name: &str, id: &str) {
        let mut containers = lock(&self.containers);
        if containers.len() >= MOST_KNOWN {
            containers.clear();
        }
        containers.extend([name, id].map(|name| (name.to_owned(), id.to_owned())));
    }

    /// Whether containers may be made of it.
    fn keep_images(&self, found: ImageFound, policy: &Policy) -> bool {
        if found.volume_count() > policy.max_image_volumes {
            return false;
        }
        let mut images = lock(&self.images);
        if images.len() >= MOST_KNOWN {
            images.clear();
        }
        images.extend(found.names());
        true
    }
}
