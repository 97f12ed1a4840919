//! Which keys a caller may manage: those within the caller's own restrictions.

use store::{ApiKey, Micros};

use super::Identity;

impl Identity {
    /// Whether this caller may list and revoke `key`, which is one of the tenant acted in.
    ///
    /// A caller that could revoke keys beyond its own restrictions could lock out its own
    /// administrators. Scopes are no restriction here, because `admin`, which managing keys
    /// requires, may grant each of them. Nor is the expiry of a token: its subject gets a new one
    /// from the same provider.
    pub(crate) fn may_manage(&self, key: &ApiKey) -> bool {
        let outlived_by = |end: Micros| key.expires_at.is_none_or(|other| other > end);
        let ends_first =
            matches!(self, Identity::Key(own) if own.expires_at.is_some_and(outlived_by));
        (self.is_service() || !key.service)
            && self.covers_skills(key.skills.as_deref())
            && !ends_first
    }

    /// Whether a key limited to `skills` could use no skill that this caller may not use.
    fn covers_skills(&self, skills: Option<&[String]>) -> bool {
        match (self.skills(), skills) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(skills)) => skills.iter().all(|name| own.contains(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{Scope, TenantId};
    use uuid::Uuid;

    use super::super::identity::TokenIdentity;
    use super::*;

    fn key(change: impl FnOnce(&mut ApiKey)) -> ApiKey {
        let mut key = ApiKey {
            id: Uuid::nil(),
            tenant: TenantId::try_from("acme").expect("a tenant"),
            name: "key".into(),
            prefix: "sk".into(),
            scopes: Scope::ALL.to_vec(),
            service: false,
            skills: None,
            expires_at: None,
            revoked_at: None,
            created_at: 0,
        };
        change(&mut key);
        key
    }

    fn skills(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn every_key_manages_itself_and_an_unrestricted_service_key_all() {
        let keys = [
            key(|_| ()),
            key(|key| key.service = true),
            key(|key| key.scopes = vec![Scope::Admin]),
            key(|key| key.skills = skills(&["a"])),
            key(|key| key.expires_at = Some(5)),
        ];
        let operator = Identity::Key(Arc::new(key(|key| key.service = true)));
        for key in keys {
            assert!(operator.may_manage(&key), "{key:?}");
            assert!(Identity::Key(Arc::new(key.clone())).may_manage(&key), "{key:?}");
        }
    }

    #[test]
    fn each_restriction_counts_by_itself() {
        let target = key(|key| {
            key.service = true;
            key.skills = skills(&["a"]);
            key.scopes = vec![Scope::Read];
            key.expires_at = Some(5);
        });
        let operator = |change: fn(&mut ApiKey)| {
            Identity::Key(Arc::new(key(|key| {
                key.service = true;
                change(key);
            })))
        };
        assert!(operator(|_| ()).may_manage(&target));
        let restrictions: [fn(&mut ApiKey); 3] = [
            |key| key.service = false,
            |key| key.skills = skills(&["b"]),
            |key| key.expires_at = Some(4),
        ];
        for (index, restriction) in restrictions.into_iter().enumerate() {
            assert!(!operator(restriction).may_manage(&target), "restriction {index}");
        }
        assert!(
            operator(|key| key.expires_at = Some(5)).may_manage(&target),
            "it ends at the same moment"
        );
    }

    #[test]
    fn a_token_manages_keys_that_outlive_it_but_no_service_keys() {
        let token = Identity::Token(Arc::new(TokenIdentity {
            tenant: TenantId::try_from("acme").expect("a tenant"),
            subject: "ada".into(),
            scopes: vec![Scope::Admin],
            expires_at: 1,
        }));
        assert!(token.may_manage(&key(|_| ())));
        assert!(!token.may_manage(&key(|key| key.service = true)));
    }
}
