//! DNS resolution for receivers. The same lookup is checked and connected to, so that a second lookup
//! cannot return another address (DNS rebinding).

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;

/// Returns only public addresses, unless the operator has listed the host.
#[derive(Clone)]
pub(super) struct PublicResolver {
    pub private_hosts: Arc<[String]>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0} resolves to an address that is not on the public internet")]
pub(super) struct NotPublic(String);

impl PublicResolver {
    fn may_connect(&self, name: &str, addresses: &[SocketAddr]) -> bool {
        // One private address among public ones is a sign of an attack, so all of them are
        // refused.
        self.private_hosts.iter().any(|host| host == name)
            || addresses.iter().all(|address| is_public(address.ip()))
    }
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            // The connection fills in the port.
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            match resolver.may_connect(name.as_str(), &found) {
                true => Ok(Box::new(found.into_iter()) as Addrs),
                false => Err(NotPublic(name.as_str().to_owned()).into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_one_private_address_is_refused() {
        let resolver = PublicResolver { private_hosts: Arc::new(["hooks.internal".to_owned()]) };
        let at = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| SocketAddr::new(text.parse().expect(text), 0)).collect()
        };
        assert!(resolver.may_connect("a.example", &at(&["8.8.8.8", "2600::1"])));
        assert!(!resolver.may_connect("a.example", &at(&["8.8.8.8", "127.0.0.1"])));
        assert!(!resolver.may_connect("a.example", &at(&["::ffff:10.0.0.1"])));
        assert!(resolver.may_connect("hooks.internal", &at(&["10.0.0.1"])));
    }

    #[tokio::test]
    async fn localhost_is_refused_unless_listed() {
        let resolver = PublicResolver { private_hosts: Arc::new([]) };
        for name in ["localhost", "LOCALHOST", "localhost."] {
            let Err(error) = resolver.resolve(name.parse().expect("a name")).await else {
                panic!("{name}")
            };
            // Some machines do not resolve every spelling, which is a refusal too.
            assert!(error.is::<NotPublic>() || error.is::<std::io::Error>(), "{name}: {error}");
        }
        let listed = PublicResolver { private_hosts: Arc::new(["localhost".to_owned()]) };
        assert!(listed.resolve("localhost".parse().expect("a name")).await.is_ok());
    }
}
