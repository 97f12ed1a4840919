//! The checks of a webhook's URL. The addresses of its host are checked at delivery, by the
//! resolver.

use url::{Host, Url};

use super::address::is_public;

const MAX_URL_LENGTH: usize = 2048;

/// A URL that was checked.
#[derive(Clone, Debug)]
pub(crate) struct WebhookUrl {
    pub url: Url,
}

/// Why a URL is refused. The sentence is for the caller.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WebhookUrlError {
    #[error("webhook must be an https:// URL of at most {MAX_URL_LENGTH} characters")]
    InvalidUrl,
    #[error("webhook must not contain a user or password; receivers check the signature")]
    Credentials,
    #[error(
        "webhook must use https://; http:// is only for hosts on the operator's list of private ones"
    )]
    Plain,
    #[error("webhook points to an address that is not on the public internet")]
    Private,
}

impl WebhookUrl {
    /// Parses and checks a URL. `private_hosts` are allowed although their addresses are private.
    pub(crate) fn parse(
        text: &str,
        private_hosts: &[String],
    ) -> Result<WebhookUrl, WebhookUrlError> {
        if text.len() > MAX_URL_LENGTH {
            return Err(WebhookUrlError::InvalidUrl);
        }
        let url = Url::parse(text).map_err(|_| WebhookUrlError::InvalidUrl)?;
        let host = url.host().ok_or(WebhookUrlError::InvalidUrl)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(WebhookUrlError::Credentials);
        }
        let allowed = private_hosts.contains(&host.to_string());
        let address = match host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
        };
        if address.is_some_and(|address| !is_public(address)) && !allowed {
            return Err(WebhookUrlError::Private);
        }
        match url.scheme() {
            "https" => Ok(WebhookUrl { url }),
            "http" if allowed => Ok(WebhookUrl { url }),
            "http" => Err(WebhookUrlError::Plain),
            _ => Err(WebhookUrlError::InvalidUrl),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<WebhookUrlError> {
        WebhookUrl::parse(text, &["hooks.internal".into(), "10.0.0.5".into()]).err()
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
                assert_eq!(refusal(&url), Some(WebhookUrlError::Private), "{url}");
            }
        }
    }

    #[test]
    fn only_https_urls_without_credentials_are_accepted() {
        for url in [
            "https://hooks.example.com/a?b=c", "https://8.8.8.8:8443/",
            "http://hooks.internal:80/", "http://10.0.0.5/", "HTTP://HOOKS.internal/",
        ] {
            assert_eq!(refusal(url), None, "{url}");
        }
        for (url, expected) in [
            ("http://hooks.example.com/", WebhookUrlError::Plain),
            ("http://hooks.internal.example.com/", WebhookUrlError::Plain),
            ("https://user@hooks.example.com/", WebhookUrlError::Credentials),
            ("https://:password@hooks.example.com/", WebhookUrlError::Credentials),
            ("https://hooks.internal:x@evil.example.com/", WebhookUrlError::Credentials),
            ("ftp://hooks.internal/", WebhookUrlError::InvalidUrl),
            ("file:///etc/passwd", WebhookUrlError::InvalidUrl),
            ("gopher://hooks.example.com/", WebhookUrlError::InvalidUrl),
            ("https://", WebhookUrlError::InvalidUrl),
            ("//hooks.example.com/", WebhookUrlError::InvalidUrl),
            ("hooks.example.com", WebhookUrlError::InvalidUrl),
            ("", WebhookUrlError::InvalidUrl),
            ("javascript:alert(1)", WebhookUrlError::InvalidUrl),
        ] {
            assert_eq!(refusal(url), Some(expected), "{url}");
        }
        let long = format!("https://hooks.example.com/{}", "a".repeat(MAX_URL_LENGTH));
        assert_eq!(refusal(&long), Some(WebhookUrlError::InvalidUrl));
    }
}
