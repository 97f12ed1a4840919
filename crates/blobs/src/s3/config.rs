//! What the operator says about the object store.

use std::fmt;

use url::Url;

use crate::BlobError;

/// Where the object store is and how to sign for it. The names of the settings are the fields' with
/// `s3_` before them.
#[derive(Clone)]
pub struct S3Config {
    /// With `http://` or `https://`.
    pub endpoint: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    pub bucket_skills: String,
    pub bucket_executions: String,
    /// Whether skill archives are only read. The key then needs no other right in their bucket.
    pub skills_read_only: bool,
    /// Where browsers reach the same server, when that is not `endpoint`.
    pub public_url: Option<String>,
}

impl S3Config {
    /// The endpoint as it is used, or what is wrong with a setting.
    pub(super) fn checked(&self) -> Result<String, BlobError> {
        for (setting, value) in [
            ("s3_region", &self.region),
            ("s3_access_key", &self.access_key),
            ("s3_secret_key", &self.secret_key),
        ] {
            let printable = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
            if !printable {
                return Err(BlobError::Setting {
                    setting,
                    why: "is empty, or has spaces or other odd characters in it",
                });
            }
        }
        for (setting, name) in [
            ("s3_bucket_skills", &self.bucket_skills),
            ("s3_bucket_executions", &self.bucket_executions),
        ] {
            if !is_bucket_name(name) {
                let why = "is not a bucket's name: 3 to 63 lower-case letters, digits, dots and hyphens, \
                           beginning and ending with a letter or digit";
                return Err(BlobError::Setting { setting, why });
            }
        }
        base_url("s3_endpoint", &self.endpoint)
    }
}

/// A URL that object names can be appended to. It is shown in errors, so nothing secret may be in
/// it.
pub(super) fn base_url(setting: &'static str, text: &str) -> Result<String, BlobError> {
    let wrong = |why| BlobError::Setting { setting, why };
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| wrong("is not a URL like https://s3.example.com:9000"))?;
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(wrong("may hold a scheme, a host, a port and a path, and nothing else"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn is_bucket_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (3..=63).contains(&name.len())
        && name.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'.'))
        && name.bytes().next().is_some_and(plain)
        && name.bytes().last().is_some_and(plain)
        && !name.contains("..")
}

impl fmt::Debug for S3Config {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Config")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("access_key", &self.access_key)
            .field("bucket_skills", &self.bucket_skills)
            .field("bucket_executions", &self.bucket_executions)
            .field("skills_read_only", &self.skills_read_only)
            .field("public_url", &self.public_url)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> S3Config {
        S3Config {
            endpoint: "http://localhost:9000/".to_owned(),
            region: "us-east-1".to_owned(),
            access_key: "skillbox".to_owned(),
            secret_key: "very-secret".to_owned(),
            bucket_skills: "skills".to_owned(),
            bucket_executions: "executions".to_owned(),
            skills_read_only: false,
            public_url: None,
        }
    }

    /// The setting that is complained about.
    fn wrong(change: impl FnOnce(&mut S3Config)) -> Option<&'static str> {
        let mut config = config();
        change(&mut config);
        match config.checked() {
            Err(BlobError::Setting { setting, .. }) => Some(setting),
            _ => None,
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(config().checked().expect("a good config"), "http://localhost:9000");
        for endpoint in [
            "", "localhost:9000", "ftp://a", "http://", "http://user:pw@a", "http://a?b",
            "http://a/#b",
        ] {
            assert_eq!(
                wrong(|config| config.endpoint = endpoint.to_owned()),
                Some("s3_endpoint"),
                "{endpoint}"
            );
        }
        for name in
            ["", "ab", "Skills", "a/b", "a_b", "-ab", "ab.", "a..b", "../x", &"a".repeat(64)]
        {
            assert_eq!(
                wrong(|config| config.bucket_skills = name.to_owned()),
                Some("s3_bucket_skills"),
                "{name}"
            );
            assert_eq!(
                wrong(|config| config.bucket_executions = name.to_owned()),
                Some("s3_bucket_executions")
            );
        }
        assert_eq!(wrong(|config| config.access_key = String::new()), Some("s3_access_key"));
        assert_eq!(wrong(|config| config.secret_key = "a\n".to_owned()), Some("s3_secret_key"));
        assert_eq!(wrong(|config| config.region = "eu west".to_owned()), Some("s3_region"));
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert!(!format!("{:?}", config()).contains("very-secret"));
    }
}
