//! The configuration of the object store.

use std::fmt;

use url::Url;

use crate::BlobError;

/// The address and credentials of the object store. The settings are named like the fields, with
/// the prefix `s3_`.
#[derive(Clone)]
pub struct S3Config {
    /// With `http://` or `https://`.
    pub endpoint: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    pub bucket_skills: String,
    pub bucket_executions: String,
    /// Skill archives are only read. The access key then needs no other permission in their bucket.
    pub skills_read_only: bool,
    /// The URL at which browsers reach the same server, if it differs from `endpoint`.
    pub public_url: Option<String>,
}

impl S3Config {
    /// Checks all settings; returns the normalized endpoint.
    pub(super) fn validate(&self) -> Result<String, BlobError> {
        for (setting, value) in [
            ("s3_region", &self.region),
            ("s3_access_key", &self.access_key),
            ("s3_secret_key", &self.secret_key),
        ] {
            let printable = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
            if !printable {
                return Err(BlobError::Setting {
                    setting,
                    why: "must not be empty or contain spaces or control characters",
                });
            }
        }
        for (setting, name) in [
            ("s3_bucket_skills", &self.bucket_skills),
            ("s3_bucket_executions", &self.bucket_executions),
        ] {
            if !is_bucket_name(name) {
                let why = "must be a bucket name: 3 to 63 lower-case letters, digits, dots and hyphens, \
                           starting and ending with a letter or digit";
                return Err(BlobError::Setting { setting, why });
            }
        }
        base_url("s3_endpoint", &self.endpoint)
    }
}

/// A URL to which object names can be appended. Error messages contain it, so it must not contain
/// credentials.
pub(super) fn base_url(setting: &'static str, text: &str) -> Result<String, BlobError> {
    let invalid = |why| BlobError::Setting { setting, why };
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| invalid("must be a URL like https://s3.example.com:9000"))?;
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(invalid("may contain a scheme, a host, a port and a path only"));
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

    /// The setting that the error names.
    fn invalid_setting(change: impl FnOnce(&mut S3Config)) -> Option<&'static str> {
        let mut config = config();
        change(&mut config);
        match config.validate() {
            Err(BlobError::Setting { setting, .. }) => Some(setting),
            _ => None,
        }
    }

    #[test]
    fn error_names_the_invalid_setting() {
        assert_eq!(config().validate().expect("a good config"), "http://localhost:9000");
        for endpoint in [
            "", "localhost:9000", "ftp://a", "http://", "http://user:pw@a", "http://a?b",
            "http://a/#b",
        ] {
            assert_eq!(
                invalid_setting(|config| config.endpoint = endpoint.to_owned()),
                Some("s3_endpoint"),
                "{endpoint}"
            );
        }
        for name in
            ["", "ab", "Skills", "a/b", "a_b", "-ab", "ab.", "a..b", "../x", &"a".repeat(64)]
        {
            assert_eq!(
                invalid_setting(|config| config.bucket_skills = name.to_owned()),
                Some("s3_bucket_skills"),
                "{name}"
            );
            assert_eq!(
                invalid_setting(|config| config.bucket_executions = name.to_owned()),
                Some("s3_bucket_executions")
            );
        }
        assert_eq!(
            invalid_setting(|config| config.access_key = String::new()),
            Some("s3_access_key")
        );
        assert_eq!(
            invalid_setting(|config| config.secret_key = "a\n".to_owned()),
            Some("s3_secret_key")
        );
        assert_eq!(
            invalid_setting(|config| config.region = "eu west".to_owned()),
            Some("s3_region")
        );
    }

    #[test]
    fn debug_output_does_not_contain_the_secret() {
        assert!(!format!("{:?}", config()).contains("very-secret"));
    }
}
