//! Which image a run gets, and whether it may.

use crate::docker::engine::Engine;
use crate::launcher::{LaunchError, Runtime, Shape};

/// The image of each runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    pub python: String,
    pub node: String,
    pub bash: String,
}

impl Images {
    pub fn of(&self, runtime: Runtime) -> &str {
        match runtime {
            Runtime::Python => &self.python,
            Runtime::Node => &self.node,
            Runtime::Bash => &self.bash,
        }
    }
}

/// The image that a shape asks for, if the operator allows it. Nothing was asked of the engine yet.
pub fn choose<'a>(
    shape: &'a Shape,
    images: &'a Images,
    allowlist: &[String],
) -> Result<&'a str, LaunchError> {
    let image = shape.image.as_deref().unwrap_or_else(|| images.of(shape.runtime));
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
        let images = Images { python: "p".into(), node: "n".into(), bash: "b".into() };
        let mut shape = Shape {
            runtime: Runtime::Node,
            image: None,
            memory_bytes: 0,
            cpu_millis: 0,
            pids: 0,
            disk_bytes: 0,
            disk_inodes: 0,
        };
        let allowed = ["n".to_owned(), "own:1".to_owned()];
        assert_eq!(choose(&shape, &images, &allowed).expect("allowed"), "n");
        shape.image = Some("own:1".to_owned());
        assert_eq!(choose(&shape, &images, &allowed).expect("allowed"), "own:1");
        shape.image = Some("own".to_owned());
        assert!(
            matches!(choose(&shape, &images, &allowed), Err(LaunchError::ImageNotAllowed(name)) if name == "own")
        );
        shape = Shape { image: None, runtime: Runtime::Bash, ..shape };
        assert!(choose(&shape, &images, &allowed).is_err());
    }
}
