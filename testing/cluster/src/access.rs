//! Authentication by bearer token, and authorization by rules like those of a `Role`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::status_error::StatusError;

/// One rule: these verbs on this resource, in one namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbacRule {
    pub verbs: Vec<String>,
    /// `pods`, `pods/attach`; `*` for all.
    pub resource: String,
    pub namespace: Option<String>,
}

impl RbacRule {
    pub fn new(namespace: &str, resource: &str, verbs: &[&str]) -> RbacRule {
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        RbacRule { verbs, resource: resource.to_owned(), namespace: Some(namespace.to_owned()) }
    }

    /// All verbs on all resources in all namespaces.
    pub fn all() -> RbacRule {
        RbacRule { verbs: vec!["*".to_owned()], resource: "*".to_owned(), namespace: None }
    }

    fn allows(&self, wanted: &AccessRequest<'_>) -> bool {
        let either = |have: &str, wanted: &str| have == "*" || have == wanted;
        self.verbs.iter().any(|verb| either(verb, wanted.verb))
            && either(&self.resource, wanted.resource)
            && self.namespace.as_deref().is_none_or(|namespace| namespace == wanted.namespace)
    }
}

/// The access that a request needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessRequest<'a> {
    pub verb: &'a str,
    pub resource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Every user, by token.
#[derive(Default)]
pub(crate) struct AccessControl(Mutex<HashMap<String, ApiUser>>);

#[derive(Debug, Clone)]
pub(crate) struct ApiUser {
    pub name: String,
    rules: Vec<RbacRule>,
}

impl AccessControl {
    /// Adds a user, or replaces its rules.
    pub(crate) fn grant(&self, token: &str, name: &str, rules: Vec<RbacRule>) {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.insert(token.to_owned(), ApiUser { name: name.to_owned(), rules });
    }

    /// The user of a request.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Result<ApiUser, StatusError> {
        let header =
            headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let token = header.strip_prefix("Bearer ").ok_or_else(StatusError::unauthorized)?;
        let users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.get(token).cloned().ok_or_else(StatusError::unauthorized)
    }

    /// The user of a request, if it has the required access.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        wanted: &AccessRequest<'_>,
    ) -> Result<ApiUser, StatusError> {
        let user = self.user(headers)?;
        if user.may(wanted) {
            return Ok(user);
        }
        Err(StatusError::forbidden(
            &user.name, wanted.verb, wanted.resource, wanted.namespace, wanted.name,
        ))
    }
}

impl ApiUser {
    pub(crate) fn may(&self, wanted: &AccessRequest<'_>) -> bool {
        self.rules.iter().any(|rule| rule.allows(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(
        access: &AccessControl,
        token: &str,
        verb: &str,
        resource: &str,
        namespace: &str,
    ) -> Option<i32> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().expect("a header"));
        let wanted = AccessRequest { verb, resource, namespace, name: "" };
        access.check(&headers, &wanted).err().and_then(|status_error| status_error.0.code)
    }

    #[test]
    fn only_what_a_rule_names_is_allowed() {
        let access = AccessControl::default();
        access.grant("secret", "worker", vec![RbacRule::new("boxes", "pods", &["get", "list"])]);
        access.grant("root", "admin", vec![RbacRule::all()]);
        let table = [
            ("secret", "get", "pods", "boxes", None),
            ("secret", "create", "pods", "boxes", Some(403)),
            ("secret", "get", "pods/attach", "boxes", Some(403)),
            ("secret", "get", "pods", "default", Some(403)),
            ("secret", "list", "pods", "", Some(403)),
            ("guess", "get", "pods", "boxes", Some(401)),
            ("root", "delete", "pods", "default", None),
        ];
        for (token, verb, resource, namespace, refused) in table {
            assert_eq!(
                requested(&access, token, verb, resource, namespace),
                refused,
                "{token} {verb} {resource}"
            );
        }
    }
}
