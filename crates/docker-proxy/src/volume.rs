//! The body of a volume's creation. Driver options must be empty: with them a volume can be any
//! directory of the host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::labels;
use crate::names;
use crate::request_error::{RequestResult, forbidden};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(crate) struct VolumeBody {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_opts: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

pub(crate) fn check(volume: &VolumeBody) -> RequestResult {
    if !names::is_ours(&volume.name) {
        return forbidden(format!("a volume named {:?}", volume.name));
    }
    if volume.driver.as_deref().is_some_and(|driver| driver != "local") {
        return forbidden("a volume driver other than local");
    }
    if volume.driver_opts.as_ref().is_some_and(|options| !options.is_empty()) {
        return forbidden("options of a volume driver");
    }
    volume.labels.as_ref().map_or(Ok(()), labels::check)
}
