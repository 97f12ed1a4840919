//! Skills: publishing, reading, and removing them.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Method};
use serde::Deserialize;
use serde_json::Value;

use crate::{Client, ClientError, Download, Listing, PageSelector, Reply};

/// Small enough for a smooth progress bar, large enough not to cost anything.
const UPLOAD_CHUNK_BYTES: usize = 64 * 1024;

/// A row of a skill list.
#[derive(Debug, Clone, Deserialize)]
pub struct SkillSummary {
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub description: String,
    pub lang: Option<String>,
    pub mode: Option<String>,
    pub status: Option<String>,
    pub digest: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
}

/// The answer to an upload.
#[derive(Debug, Clone, Deserialize)]
pub struct PublishedSkill {
    pub name: String,
    pub version: String,
    pub digest: Option<String>,
    /// `available`, or `review` while it waits for an approval.
    pub status: Option<String>,
    #[serde(default)]
    pub findings: Vec<SkillFinding>,
}

/// Everything about one version of a skill.
#[derive(Debug, Clone, Deserialize)]
pub struct SkillDetail {
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub description: String,
    pub lang: Option<String>,
    pub image: Option<String>,
    #[serde(default)]
    pub instructions: String,
    pub timeout: Option<String>,
    #[serde(default)]
    pub resources: SkillResources,
    pub mode: Option<String>,
    pub entrypoint: Option<String>,
    #[serde(default)]
    pub scripts: Vec<SkillScript>,
    pub digest: Option<String>,
    pub status: Option<String>,
    #[serde(default)]
    pub findings: Vec<SkillFinding>,
    pub input_schema: Option<Value>,
    pub output_schema: Option<Value>,
    pub signature: Option<SkillSignature>,
}

/// The signature that came with a skill, as the server judges it now.
#[derive(Debug, Clone, Deserialize)]
pub struct SkillSignature {
    pub key_id: String,
    #[serde(default)]
    pub trusted: bool,
    pub problem: Option<String>,
    pub signed_at: Option<String>,
    /// The text of `SKILL.md.minisig`.
    pub text: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SkillResources {
    pub cpu: Option<String>,
    pub memory: Option<String>,
}

/// A file of the skill that can be run.
#[derive(Debug, Clone, Deserialize)]
pub struct SkillScript {
    pub path: String,
    pub lang: Option<String>,
    pub description: Option<String>,
}

/// Something a check noticed about a skill.
#[derive(Debug, Clone, Deserialize)]
pub struct SkillFinding {
    pub code: String,
    pub severity: String,
    pub path: Option<String>,
    pub line: Option<u32>,
    pub message: String,
}

/// What the server would say to an upload, without storing it.
#[derive(Debug, Clone, Deserialize)]
pub struct SkillValidation {
    #[serde(default)]
    pub valid: bool,
    #[serde(default)]
    pub findings: Vec<SkillFinding>,
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

impl Client {
    /// Publishes a zip. `sent` is called for every piece handed to the network, with the running total.
    pub async fn publish_skill(
        &self,
        zip: Bytes,
        sent: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Reply<PublishedSkill>, ClientError> {
        self.upload(&["v1", "skills"], zip, sent).await
    }

    /// Checks a zip on the server without storing it.
    pub async fn validate_skill(&self, zip: Bytes) -> Result<Reply<SkillValidation>, ClientError> {
        self.upload(&["v1", "skills", "validate"], zip, |_| ()).await
    }

    /// The newest version of every skill.
    pub async fn skills(&self, page: &PageSelector) -> Result<Listing<SkillSummary>, ClientError> {
        self.list(&["v1", "skills"], &page.query()).await
    }

    pub async fn skill(
        &self,
        name: &str,
        version: &str,
    ) -> Result<Reply<SkillDetail>, ClientError> {
        self.get(&["v1", "skills", name, version]).await
    }

    pub async fn skill_versions(&self, name: &str) -> Result<Listing<SkillSummary>, ClientError> {
        self.list(&["v1", "skills", name, "versions"], &[]).await
    }

    /// The stored zip, streamed.
    pub async fn skill_content(&self, name: &str, version: &str) -> Result<Download, ClientError> {
        self.download(&["v1", "skills", name, version, "content"]).await
    }

    pub async fn delete_skill(&self, name: &str, version: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "skills", name, version]).await
    }

    /// Lets a skill run that was held for review. The digest is that of the content that was looked
    /// at.
    pub async fn approve_skill(
        &self,
        name: &str,
        version: &str,
        digest: &str,
    ) -> Result<Reply<SkillSummary>, ClientError> {
        self.review(name, version, digest, "approve").await
    }

    /// Keeps a skill from running.
    pub async fn reject_skill(
        &self,
        name: &str,
        version: &str,
        digest: &str,
    ) -> Result<Reply<SkillSummary>, ClientError> {
        self.review(name, version, digest, "reject").await
    }

    async fn review(
        &self,
        name: &str,
        version: &str,
        digest: &str,
        word: &str,
    ) -> Result<Reply<SkillSummary>, ClientError> {
        let mut url = self.url(&["v1", "skills", name, version, word]);
        url.query_pairs_mut().append_pair("digest", digest);
        let request = self.request(Method::POST, &url);
        self.reply(&url, request).await
    }

    async fn upload<T: serde::de::DeserializeOwned>(
        &self,
        segments: &[&str],
        zip: Bytes,
        sent: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Reply<T>, ClientError> {
        let url = self.url(segments);
        let request = self
            .request(Method::POST, &url)
            .header(CONTENT_TYPE, "application/zip")
            // With a length the server can refuse an oversize upload before it is sent.
            .header(CONTENT_LENGTH, zip.len())
            .body(counted(zip, sent));
        self.reply(&url, request).await
    }
}

/// A body that reports how much of it was taken.
fn counted(zip: Bytes, sent: impl Fn(u64) + Send + Sync + 'static) -> Body {
    let total = zip.len() as u64;
    Body::wrap_stream(stream::iter(chunks(zip).scan(0, move |done, chunk: Bytes| {
        *done += chunk.len() as u64;
        sent((*done).min(total));
        Some(Ok::<_, std::convert::Infallible>(chunk))
    })))
}

fn chunks(mut bytes: Bytes) -> impl Iterator<Item = Bytes> + Send {
    std::iter::from_fn(move || {
        let size = bytes.len().min(UPLOAD_CHUNK_BYTES);
        (size > 0).then(|| bytes.split_to(size))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_the_whole_in_order() {
        let bytes: Vec<u8> = (0..UPLOAD_CHUNK_BYTES * 2 + 7).map(|i| (i % 251) as u8).collect();
        let parts: Vec<Bytes> = chunks(Bytes::from(bytes.clone())).collect();
        assert_eq!(parts.len(), 3);
        assert_eq!(parts.concat(), bytes);
        assert_eq!(chunks(Bytes::new()).count(), 0);
    }
}
