//! Presigned URLs: the bearer downloads a blob directly from the object store until the URL expires.
//!
//! The signature covers the host, so it is computed for the address that browsers use. Signing is
//! local and sends no request to the server. The SDK's presigner is not used, because it signs for
//! the endpoint of its client, which browsers may not reach.

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::config::Credentials;
use aws_sigv4::http_request::{
    PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation, SigningSettings,
    UriPathNormalizationMode,
};
use aws_sigv4::sign::v4::SigningParams;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{S3Config, S3Problem, client, config};
use crate::{BlobError, BlobKey};

/// The maximum lifetime that the protocol allows.
const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The characters that Signature Version 4 requires to be percent-encoded.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const IN_PATH: &AsciiSet = &IN_QUERY.remove(b'/');

pub(super) struct Presigner {
    base: String,
    region: String,
    credentials: Credentials,
}

impl Presigner {
    pub(super) fn new(config: &S3Config, endpoint: &str) -> Result<Presigner, BlobError> {
        let base = match &config.public_url {
            Some(url) => config::base_url("s3_public_url", url)?,
            None => endpoint.to_owned(),
        };
        Ok(Presigner {
            base,
            region: config.region.clone(),
            credentials: client::credentials(config),
        })
    }

    pub(super) fn url(
        &self,
        bucket: &str,
        key: &BlobKey,
        filename: &str,
        content_type: &str,
        ttl: Duration,
    ) -> Result<String, BlobError> {
        let path = utf8_percent_encode(key.as_str(), IN_PATH);
        let disposition = content_disposition(filename);
        let disposition = utf8_percent_encode(&disposition, IN_QUERY);
        let content_type = utf8_percent_encode(header_safe(content_type), IN_QUERY);
        let url = format!(
            "{}/{bucket}/{path}?response-content-disposition={disposition}&response-content-type={content_type}",
            self.base
        );
        self.sign(url, ttl, SystemTime::now()).map_err(|answer| BlobError::S3 {
            action: "sign a URL",
            problem: S3Problem::Refused { answer },
        })
    }

    fn sign(&self, mut url: String, ttl: Duration, now: SystemTime) -> Result<String, String> {
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(ttl.clamp(Duration::from_secs(1), MAX_LIFETIME));
        // Unlike other AWS services, S3 signs the path as it is sent: encoded once and not
        // normalized. Anything else gives a signature that the server rejects.
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        let identity = self.credentials.clone().into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("s3")
            .time(now)
            .settings(settings)
            .build()
            .map_err(|error| error.to_string())?;
        let body = SignableBody::UnsignedPayload;
        let request = SignableRequest::new("GET", url.as_str(), std::iter::empty(), body);
        let signed = aws_sigv4::http_request::sign(
            request.map_err(|error| error.to_string())?,
            &params.into(),
        );
        let (instructions, _) = signed.map_err(|error| error.to_string())?.into_parts();
        for (name, value) in instructions.params() {
            url.push_str(&format!("&{name}={}", utf8_percent_encode(value, IN_QUERY)));
        }
        Ok(url)
    }
}

/// A Content-Disposition that forces a download, with an ASCII name for old clients and the exact
/// name for others.
fn content_disposition(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "._- ".contains(c);
    let ascii: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let exact = utf8_percent_encode(name, NON_ALPHANUMERIC);
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{exact}")
}

/// The content type, or the default if it is not valid in a header.
fn header_safe(content_type: &str) -> &str {
    let fits = content_type.contains('/')
        && content_type.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if fits { content_type } else { client::CONTENT_TYPE }
}

impl fmt::Debug for Presigner {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presigner").field("base", &self.base).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presigner() -> Presigner {
        let credentials = Credentials::new(
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            None,
            None,
            "test",
        );
        Presigner {
            base: "https://examplebucket.s3.amazonaws.com".into(),
            region: "us-east-1".into(),
            credentials,
        }
    }

    /// The example in the protocol's own description.
    #[test]
    fn signature_matches_the_example_of_the_specification() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let url = "https://examplebucket.s3.amazonaws.com/test.txt?".to_owned();
        let url = presigner().sign(url, Duration::from_secs(86_400), at).expect("a URL");
        let signature =
            "X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(url.ends_with(signature), "{url}");
    }

    #[test]
    fn lifetimes_are_clamped_to_the_allowed_range() {
        for (asked, given) in
            [(0, 1), (60, 60), (604_800, 604_800), (604_801, 604_800), (u64::MAX, 604_800)]
        {
            let key = BlobKey::archive("acme", 7);
            let url = presigner()
                .url("b", &key, "f", "text/plain", Duration::from_secs(asked))
                .expect("a URL");
            assert!(url.contains(&format!("&X-Amz-Expires={given}&")), "{url}");
        }
    }

    #[test]
    fn hostile_names_and_types_stay_one_parameter() {
        assert_eq!(
            content_disposition("a/report.csv"),
            "attachment; filename=\"report.csv\"; filename*=UTF-8''report%2Ecsv"
        );
        assert_eq!(
            content_disposition("x\"; filename=evil\r\nSet-Cookie: é"),
            "attachment; filename=\"x__ filename_evil__Set-Cookie_ _\"; \
             filename*=UTF-8''x%22%3B%20filename%3Devil%0D%0ASet%2DCookie%3A%20%C3%A9"
        );
        assert_eq!(header_safe("text/html; charset=utf-8"), "text/html; charset=utf-8");
        for odd in ["", "html", "text/html\r\nSet-Cookie: a", "text/é"] {
            assert_eq!(header_safe(odd), client::CONTENT_TYPE);
        }
        let key = BlobKey::artifact("acme", 7, "a&b=c#d?e/../f");
        let url =
            presigner().url("b", &key, "&x=y#\0", "text/plain&z", MAX_LIFETIME).expect("a URL");
        let parsed = url::Url::parse(&url).expect("a URL");
        let names: Vec<_> = parsed.query_pairs().map(|(name, _)| name.into_owned()).collect();
        assert_eq!(names.len(), 8, "{names:?}");
        assert_eq!(
            (parsed.fragment(), names.iter().filter(|name| !name.contains('-')).count()),
            (None, 0)
        );
    }

    #[test]
    fn debug_output_does_not_contain_the_secret() {
        assert!(!format!("{:?}", presigner()).contains("wJalr"));
    }
}
