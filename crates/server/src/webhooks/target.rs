//! Where a webhook may go, as far as its URL says. What its name leads to is checked when it is
//! called.

use url::{Host, Url};

use super::address::is_public;

const MAX_URL_LENGTH: usize = 2048;

/// A URL that was checked.
#[derive(Clone, Debug)]
pub struct Target {
    pub url: Url,
}

/// Why a URL is no target. The sentence is for the caller.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("webhook must be an https:// URL of at most {MAX_URL_LENGTH} characters")]
    NotAUrl,
    #[error("webhook must not carry a user or password; receivers check the signature")]
    Credentials,
    #[error(
        "webhook must use https://; http:// is only for hosts on the operator's list of private ones"
    )]
    Plain,
    #[error("webhook leads to an address that is not on the public internet")]
    Private,
}

impl Target {
    /// Checks a URL against the hosts that the operator lets webhooks reach although they are
    /// private.
    pub fn parse(text: &str, private_hosts: &[String]) -> Result<Target, TargetError> {
        if text.len() > MAX_URL_LENGTH {
            return Err(TargetError::NotAUrl);
        }
        let url = Url::parse(text).map_err(|_| TargetError::NotAUrl)?;
        let host = url.host().ok_or(TargetError::NotAUrl)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::Credentials);
        }
        let allowed = private_hosts.contains(&host.to_string());
        let address = match host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
        };
        if address.is_some_and(|address| !is_public(address)) && !allowed {
            return Err(TargetError::Private);
        }
        match url.scheme() {
            "https" => Ok(Target { url }),
            "http" if allowed => Ok(Target { url }),
            "http" => Err(TargetError::Plain),
            _ => Err(TargetError::NotAUrl),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<TargetError> {
        Target::parse(text, &["hooks.internal".into(), "10.0.0.5".into()]).err()
    }

    #[test]
    fn private_addresses_are_refused_in_every_spelling() {
        for host in [
            "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
            "0177.1", "0", "0.0.0.0", "127.0.0.1.", "10.0.0.6", "169.254.169.254", "0xA9FEA9FE",
            "2852039166", "192.168.0.1", "100.64.0.1", "172.16.0.1", "224.0.0.1",
            "255.255.255.255", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
            "[0:0:0:0:0:ffff:a9fe:a9fe]", "[fd00:ec2::254]", "[fe80::1]", "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]", "１２７.0.0.1", "①②⑦.⓪.⓪.①", "%31%32%37.0.0.1",
        ] {
            for url in [format!("https://{host}/"), format!("https://{host}:8443/x?y")] {
                assert_eq!(refusal(&url), Some(TargetError::Private), "{url}");
            }
        }
    }

    #[test]
    fn only_plain_https_urls_are_targets() {
        for url in [
            "https://hooks.example.com/a?b=c", "https://8.8.8.8:8443/",
            "http://hooks.internal:80/", "http://10.0.0.5/", "HTTP://HOOKS.internal/",
        ] {
            assert_eq!(refusal(url), None, "{url}");
        }
        for (url, expected) in [
            ("http://hooks.example.com/", TargetError::Plain),
            ("http://hooks.internal.example.com/", TargetError::Plain),
            ("https://user@hooks.example.com/", TargetError::Credentials),
            ("https://:password@hooks.example.com/", TargetError::Credentials),
            ("https://hooks.internal:x@evil.example.com/", TargetError::Credentials),
            ("ftp://hooks.internal/", TargetError::NotAUrl),
            ("file:///etc/passwd", TargetError::NotAUrl),
            ("gopher://hooks.example.com/", TargetError::NotAUrl),
            ("https://", TargetError::NotAUrl),
            ("//hooks.example.com/", TargetError::NotAUrl),
            ("hooks.example.com", TargetError::NotAUrl),
            ("", TargetError::NotAUrl),
            ("javascript:alert(1)", TargetError::NotAUrl),
        ] {
            assert_eq!(refusal(url), Some(expected), "{url}");
        }
        let long = format!("https://hooks.example.com/{}", "a".repeat(MAX_URL_LENGTH));
        assert_eq!(refusal(&long), Some(TargetError::NotAUrl));
    }
}
