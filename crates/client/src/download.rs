//! Bytes on their way from the server: read in chunks, never held whole.

use bytes::Bytes;
use reqwest::{Method, Response};
use url::Url;

use crate::error::without_query;
use crate::{Client, ClientError};

/// A body being received.
#[derive(Debug)]
pub struct Download {
    url: Url,
    response: Response,
}

impl Download {
    /// The announced size, for a progress bar.
    pub fn size(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// The next piece, `None` at the end. A body cut short is an error, not an end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        self.response.chunk().await.map_err(|error| ClientError::ConnectionLost {
            url: without_query(&self.url),
            cause: error.to_string(),
        })
    }

    /// Everything, for bodies known to be small; refuses to hold more than `max` bytes.
    pub async fn bytes(mut self, max: usize) -> Result<Vec<u8>, ClientError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.len() > max {
                return Err(ClientError::InvalidResponse {
                    url: without_query(&self.url),
                    cause: format!("more than {max} bytes"),
                });
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }
}

impl Client {
    /// Fetches a self-authenticating URL such as `files_url`; a path is taken relative to the
    /// server.
    pub async fn download_url(&self, url: &str) -> Result<Download, ClientError> {
        let url = self
            .base()
            .join(url)
            .map_err(|_| ClientError::Invalid(format!("`{url}` is not a URL")))?;
        let response = self.send(&url, self.anonymous(&url)).await?;
        Ok(Download { url, response })
    }

    pub(crate) async fn download(&self, segments: &[&str]) -> Result<Download, ClientError> {
        let url = self.url(segments);
        let response = self.send(&url, self.request(Method::GET, &url)).await?;
        Ok(Download { url, response })
    }
}
