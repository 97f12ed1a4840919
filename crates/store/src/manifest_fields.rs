//! Fields of a manifest that are stored in columns of their own, so that lists and lookups need not
//! read the manifest, which may be a megabyte.

use serde_json::Value;

use crate::CallableSkill;

/// The fields of a manifest that have columns of their own.
#[derive(Debug, Default)]
pub(crate) struct ManifestFields {
    pub idempotent: bool,
    pub input_schema: Option<Value>,
}

impl ManifestFields {
    pub(crate) fn from_manifest(manifest: &Value) -> ManifestFields {
        let schema = manifest.get("input_schema").filter(|schema| !schema.is_null()).cloned();
        let is_short =
            |schema: &Value| schema.to_string().len() as u64 <= CallableSkill::SCHEMA_BYTES;
        ManifestFields {
            idempotent: manifest["idempotent"] == true,
            input_schema: schema.filter(is_short),
        }
    }

    pub(crate) fn schema_text(&self) -> Option<String> {
        self.input_schema.as_ref().map(Value::to_string)
    }
}
