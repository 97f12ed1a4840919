//! Which image a run gets, and whether it may.

use std::collections::BTreeMap;

use language::Language;

use crate::docker::engine::Engine;
use crate::launcher::{LaunchError, Shape};

/// The image of each language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images(BTreeMap<Language, String>);

impl Images {
    pub fn new(image: impl Fn(Language) -> String) -> Self {
        Self(Language::ALL.into_iter().map(|language| (language, image(language))).collect())
    }

    /// The same for a source that can fail; the first error ends it.
    pub fn try_new<E>(image: impl Fn(Language) -> Result<String, E>) -> Result<Self, E> {
        let images = Language::ALL.into_iter().map(|language| Ok((language, image(language)?)));
        images.collect::<Result<_, E>>().map(Self)
    }

    pub fn image_for(&self, language: Language) -> &str {
        // Both constructors fill in every language.
        &self.0[&language]
    }
}

/// The image that a shape asks for, if the operator allows it. Nothing was asked of the engine yet.
pub fn choose<'a>(
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

/// The id behind a name, by which the container is then made: a name may mean something else a
/// moment later.
pub async fn resolve(engine: &Engine, image: &str) -> Result<String, LaunchError> {
    let found =
        engine.image(image).await?.ok_or_else(|| LaunchError::ImageMissing(image.to_owned()))?;
    let unfit =
        |why: &str| LaunchError::ImageUnfit { image: image.to_owned(), why: why.to_owned() };
    let volumes = found.config.and_then(|config| config.volumes).unwrap_or_default();
    if !volumes.is_empty() {
        return Err(unfit("it declares volumes, which would be places to write without a limit"));
    }
    found
        .id
        .filter(|id| id.starts_with("sha256:"))
        .ok_or_else(|| unfit("the engine does not say its id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_allowed_is_chosen() {
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
        assert_eq!(choose(&shape, &images, &allowed).expect("allowed"), "node:1");
        shape.image = Some("own:1".to_owned());
        assert_eq!(choose(&shape, &images, &allowed).expect("allowed"), "own:1");
        shape.image = Some("own".to_owned());
        assert!(
            matches!(choose(&shape, &images, &allowed), Err(LaunchError::ImageNotAllowed(name)) if name == "own")
        );
        shape = Shape { image: None, language: Language::Bash, ..shape };
        assert!(choose(&shape, &images, &allowed).is_err());
    }
}
