//! Labels: those that a launcher may set on its containers and volumes, and the one that this proxy
//! adds to all of them.

use std::collections::BTreeMap;

use crate::request_error::{RequestResult, forbidden};

/// The label of everything created through a proxy; its value is the proxy's instance.
pub const PROXY_LABEL: &str = "skillbox.proxy";

/// Other programs act on labels they find (load balancers, updaters, compose), so a client may set
/// only ours.
const LABEL_PREFIX: &str = "skillbox.";

const MAX_VALUE_BYTES: usize = 256;

pub(crate) type LabelMap = BTreeMap<String, String>;

pub(crate) fn check(labels: &LabelMap) -> RequestResult {
    for (key, value) in labels {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        if !key.starts_with(LABEL_PREFIX) || !key.bytes().all(is_allowed) || key == PROXY_LABEL {
            return forbidden(format!("the label {key:?}"));
        }
        if value.len() > MAX_VALUE_BYTES || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return forbidden(format!("the label {key:?} with an invalid value"));
        }
    }
    Ok(())
}
