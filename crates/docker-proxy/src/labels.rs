//! Labels: what a launcher may put on its containers and volumes, and the one that this proxy puts
//! on all of them.

use std::collections::BTreeMap;

use crate::refusal::{Checked, forbidden};

/// The label of everything made through a proxy; its value is the proxy's instance.
pub const LABEL: &str = "skillbox.proxy";

/// Other programs act on labels they find (load balancers, updaters, compose), so none but ours are
/// set.
const PREFIX: &str = "skillbox.";

const LONGEST: usize = 256;

pub type Labels = BTreeMap<String, String>;

pub fn check(labels: &Labels) -> Checked {
    for (key, value) in labels {
        let plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        if !key.starts_with(PREFIX) || !key.bytes().all(plain) || key == LABEL {
            return forbidden(format!("the label {key:?}"));
        }
        if value.len() > LONGEST || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return forbidden(format!("the label {key:?} with an odd value"));
        }
    }
    Ok(())
}
