//! The choice of a run's image, and the check that it is allowed.

use std::collections::BTreeMap;

use language::Language;

use crate::docker::client::DockerClient;
use crate::launcher::{LaunchError, Shape};

/// The image of each language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images(BTreeMap<Language, String>);

impl Images {
    pub fn new(image: impl Fn(Language) -> String) -> Self {
        Self(Language::ALL.into_iter().map(|language| (language, image(language))).collect())
    }

    /// Like [`Images::new`], for a source that can fail.
    pub fn try_new<E>(image: impl Fn(Language) -> Result<String, E>) -> Result<Self, E> {
        let images = Language::ALL.into_iter().map(|language| Ok((language, image(language)?)));
        images.collect::<Result<_, E>>().map(Self)
    }

    pub fn image_for(&self, language: Language) -> &str {
        // Both constructors fill in every language.
        &self.0[&language]
    }
}

/// The image for a shape, if the operator allows it. It needs no request to the engine.
pub(crate) fn select_image<'a>(
    shape: &'a Shape,
    images: &'a Images,
    allowlist: &[String],
) -> Result<&'a str, LaunchError> {
    let image = shape.image.as_deref().unwrap_or_else(|| images.image_for(shape.language));
    match allowlist.iter().any(|allowed| allowed == image) {
        true => Ok(image),
        false => Err(LaunchError::ImageNotAllowed(image.to_owned())),
    }
}

/// The id of an image name. Containers are created by id, because a name may refer to another image
/// a moment later.
pub(crate) async fn resolve_image_id(
    client: &DockerClient,
    image: &str,
) -> Result<String, LaunchError> {
    let found =
        client.image(image).await?.ok_or_else(|| LaunchError::ImageMissing(image.to_owned()))?;
    let unfit =
        |why: &str| LaunchError::ImageUnfit { image: image.to_owned(), why: why.to_owned() };
    let volumes = found.config.and_then(|config| config.volumes).unwrap_or_default();
    if !volumes.is_empty() {
        return Err(unfit("it declares volumes, which would be writable without a limit"));
    }
    found
        .id
        .filter(|id| id.starts_with("sha256:"))
        .ok_or_else(|| unfit("the engine does not report its id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_images_are_selected() {
        let images = Images::new(|language| format!("{language}:1"));
        let mut shape = Shape {
            language: Language::Node,
            image: None,
            memory_bytes: 0,
            cpu_millis: 0,
            pids: 0,
            disk_bytes: 0,
            disk_inodes: 0,
        };
        let allowed = ["node:1".to_owned(), "own:1".to_owned()];
        assert_eq!(select_image(&shape, &images, &allowed).expect("allowed"), "node:1");
        shape.image = Some("own:1".to_owned());
        assert_eq!(select_image(&shape, &images, &allowed).expect("allowed"), "own:1");
        shape.image = Some("own".to_owned());
        assert!(
            matches!(select_image(&shape, &images, &allowed), Err(LaunchError::ImageNotAllowed(name)) if name == "own")
        );
        shape = Shape { image: None, language: Language::Bash, ..shape };
        assert!(select_image(&shape, &images, &allowed).is_err());
    }
}
