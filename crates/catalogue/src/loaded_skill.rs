//! A skill ready to run: unpacked, with compiled schemas.

use serde_json::Value;
use skill::{Finding, Manifest, Package, Severity, SkillFile, SkillScript};

use crate::Schema;

/// Everything about a skill that does not depend on a request.
#[derive(Debug)]
pub struct LoadedSkill {
    pub manifest: Manifest,
    pub files: Vec<SkillFile>,
    /// The sum of the files' sizes.
    pub files_bytes: u64,
    pub scripts: Vec<SkillScript>,
    pub entrypoint: Option<SkillScript>,
    pub input_schema: Option<Schema>,
    pub output_schema: Option<Schema>,
}

impl LoadedSkill {
    /// The error is a sentence about a schema that cannot be used.
    pub fn compile(package: Package) -> Result<LoadedSkill, String> {
        let schema = |what: &str, schema: &Option<Value>| {
            let compiled = schema.as_ref().map(Schema::compile).transpose();
            compiled.map_err(|error| format!("The skill's {what} {error}."))
        };
        Ok(LoadedSkill {
            input_schema: schema("input_schema", &package.manifest.input_schema)?,
            output_schema: schema("output_schema", &package.manifest.output_schema)?,
            files_bytes: package.files.iter().map(|file| file.bytes.len() as u64).sum(),
            files: package.files,
            manifest: package.manifest,
            scripts: package.scripts,
            entrypoint: package.entrypoint,
        })
    }

    /// The memory that it takes at most.
    pub fn memory_bytes(&self) -> u64 {
        let schemas = self.input_schema.iter().chain(&self.output_schema);
        schemas.map(Schema::memory_bytes).fold(self.files_bytes, u64::saturating_add)
    }
}

/// Findings about schemas that cannot be enforced. They prevent that the package is published.
pub fn unusable_schemas(package: &Package) -> Vec<Finding> {
    let manifest = &package.manifest;
    let schemas =
        [("input_schema", &manifest.input_schema), ("output_schema", &manifest.output_schema)];
    let unusable = |(what, schema): (&str, &Option<Value>)| {
        let error = Schema::compile(schema.as_ref()?).err()?;
        let message = format!("`{what}` {error}; change it");
        let finding = Finding {
            code: "schema_unusable",
            severity: Severity::Error,
            path: None,
            line: None,
            message,
        };
        Some(package.locate_schema_finding(what, finding))
    };
    schemas.into_iter().filter_map(unusable).collect()
}
