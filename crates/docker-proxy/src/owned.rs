//! Which containers, volumes and images on the engine belong to this proxy, according to the
//! engine itself.

use std::collections::HashMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::cache::{EngineCache, InspectedImage};
use crate::config::ContainerPolicy;
use crate::engine::EngineClient;
use crate::labels::PROXY_LABEL;
use crate::names;
use crate::request_error::{RequestError, RequestResult, forbidden};

/// Docker leaves `Labels` null where there are none.
type InspectedLabels = Option<HashMap<String, String>>;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedContainer {
    id: String,
    config: InspectedConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedConfig {
    labels: InspectedLabels,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedVolume {
    name: String,
    driver: String,
    labels: InspectedLabels,
    options: Option<HashMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedVolumes {
    volumes: Option<Vec<serde::de::IgnoredAny>>,
}

/// The engine's objects, restricted to those with this proxy's label.
pub(crate) struct OwnedResources<'a> {
    pub engine: &'a EngineClient,
    pub policy: &'a ContainerPolicy,
    pub cache: &'a EngineCache,
}

impl OwnedResources<'_> {
    /// The id of the container with this id or name, if it is ours.
    pub(crate) async fn container_id(&self, name: &str) -> RequestResult<String> {
        // One error for foreign and missing containers, so that a client cannot find out which
        // others exist.
        const NOT_VISIBLE: RequestError = RequestError::NotVisible("container");
        if !names::is_id(name) && !names::is_ours(name) {
            return Err(NOT_VISIBLE);
        }
        if let Some(id) = self.cache.container_id(name) {
            return Ok(id);
        }
        let found: Option<InspectedContainer> =
            self.engine.get_json(format!("/containers/{name}/json")).await?;
        let found = found
            .filter(|found| names::is_id(&found.id) && self.has_label(&found.config.labels))
            .ok_or(NOT_VISIBLE)?;
        self.cache.add_container(name, &found.id);
        Ok(found.id)
    }

    /// Whether the volume exists and is ours; an error when it exists and is not.
    pub(crate) async fn has_volume(&self, name: &str) -> RequestResult<bool> {
        const NOT_VISIBLE: RequestError = RequestError::NotVisible("volume");
        if !names::is_ours(name) {
            return Err(NOT_VISIBLE);
        }
        let Some(found) =
            self.engine.get_json::<InspectedVolume>(format!("/volumes/{name}")).await?
        else {
            return Ok(false);
        };
        // A volume with driver options can be any directory of the host, whatever its label says.
        let plain =
            found.driver == "local" && found.options.is_none_or(|options| options.is_empty());
        let ours = found.name == name && plain && self.has_label(&found.labels);
        if ours { Ok(true) } else { Err(NOT_VISIBLE) }
    }

    /// Checks that one more volume may be created.
    pub(crate) async fn check_volume_count(&self) -> RequestResult {
        let label = format!("{PROXY_LABEL}={}", self.policy.instance);
        let filters = serde_json::json!({"label": [label]}).to_string();
        let filters = utf8_percent_encode(&filters, NON_ALPHANUMERIC);
        let found: Option<ListedVolumes> =
            self.engine.get_json(format!("/volumes?filters={filters}")).await?;
        let count = found.and_then(|found| found.volumes).map_or(0, |volumes| volumes.len());
        if count < self.policy.max_volumes {
            return Ok(());
        }
        forbidden(format!(
            "one more volume: {count} of this proxy exist and the limit is {} (--max-volumes). Remove those of old \
             versions on the engine: docker volume ls --filter label={label}",
            self.policy.max_volumes
        ))
    }

    /// Checks that the image may be inspected: an allowed name, or an id or digest of one.
    pub(crate) async fn check_visible_image(&self, image: &str) -> RequestResult {
        if self.is_allowed(image) { Ok(()) } else { self.check_image(image).await }
    }

    /// Checks that a container may be created from this image: like
    /// [`OwnedResources::check_visible_image`], and without volumes of its own.
    pub(crate) async fn check_image(&self, image: &str) -> RequestResult {
        if self.cache.has_image(image) {
            return Ok(());
        }
        if self.is_allowed(image) {
            return match self.resolve_image(image).await? {
                Some(false) => forbidden(format!(
                    "the image {image:?}: it declares volumes, whose size has no limit"
                )),
                // For a missing image the engine has the best error message.
                Some(true) | None => Ok(()),
            };
        }
        // A restarted proxy has an empty cache, and its launchers still use the ids they resolved
        // before. Only something that looks like a resolved id is worth the lookups.
        if image.contains("sha256:") {
            for name in &self.policy.images {
                self.resolve_image(name).await?;
            }
        }
        if self.cache.has_image(image) {
            return Ok(());
        }
        forbidden(format!("the image {image:?}; add its name to the allowlist"))
    }

    fn is_allowed(&self, image: &str) -> bool {
        self.policy.images.iter().any(|name| name == image)
    }

    /// Caches the ids of a name; `Some(false)` when no container may be created from it, `None`
    /// when the engine does not have it.
    async fn resolve_image(&self, name: &str) -> RequestResult<Option<bool>> {
        let found: Option<InspectedImage> =
            self.engine.get_json(format!("/images/{name}/json")).await?;
        Ok(found.map(|found| self.cache.add_image(found, self.policy)))
    }

    fn has_label(&self, labels: &InspectedLabels) -> bool {
        labels.as_ref().and_then(|labels| labels.get(PROXY_LABEL)) == Some(&self.policy.instance)
    }
}
