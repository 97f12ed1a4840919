//! Who asks, by bearer token, and what they may do, by rules as a `Role` has them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::refusal::Refusal;

/// One rule: these verbs on this resource, in one namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<String>,
    /// `pods`, `pods/attach`; `*` for all.
    pub resource: String,
    pub namespace: Option<String>,
}

impl Rule {
    pub fn new(namespace: &str, resource: &str, verbs: &[&str]) -> Rule {
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        Rule { verbs, resource: resource.to_owned(), namespace: Some(namespace.to_owned()) }
    }

    /// Everything, everywhere.
    pub fn all() -> Rule {
        Rule { verbs: vec!["*".to_owned()], resource: "*".to_owned(), namespace: None }
    }

    fn allows(&self, wanted: &Wanted<'_>) -> bool {
        let either = |have: &str, wanted: &str| have == "*" || have == wanted;
        self.verbs.iter().any(|verb| either(verb, wanted.verb))
            && either(&self.resource, wanted.resource)
            && self.namespace.as_deref().is_none_or(|namespace| namespace == wanted.namespace)
    }
}

/// What somebody wants to do.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub verb: &'a str,
    pub resource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Every user, by token.
#[derive(Default)]
pub struct Access(Mutex<HashMap<String, User>>);

#[derive(Debug, Clone)]
pub struct User {
    pub name: String,
    rules: Vec<Rule>,
}

impl Access {
    /// Adds a user, or gives one other rules.
    pub fn grant(&self, token: &str, name: &str, rules: Vec<Rule>) {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.insert(token.to_owned(), User { name: name.to_owned(), rules });
    }

    /// Who sent a request.
    pub fn user(&self, headers: &HeaderMap) -> Result<User, Refusal> {
        let header =
            headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let token = header.strip_prefix("Bearer ").ok_or_else(Refusal::unauthorized)?;
        let users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.get(token).cloned().ok_or_else(Refusal::unauthorized)
    }

    /// Who sent a request, if they may do what they want.
    pub fn check(&self, headers: &HeaderMap, wanted: &Wanted<'_>) -> Result<User, Refusal> {
        let user = self.user(headers)?;
        if user.may(wanted) {
            return Ok(user);
        }
        Err(Refusal::forbidden(
            &user.name, wanted.verb, wanted.resource, wanted.namespace, wanted.name,
        ))
    }
}

impl User {
    pub fn may(&self, wanted: &Wanted<'_>) -> bool {
        self.rules.iter().any(|rule| rule.allows(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(
        access: &Access,
        token: &str,
        verb: &str,
        resource: &str,
        namespace: &str,
    ) -> Option<i32> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().expect("a header"));
        let wanted = Wanted { verb, resource, namespace, name: "" };
        access.check(&headers, &wanted).err().and_then(|refusal| refusal.0.code)
    }

    #[test]
    fn only_what_a_rule_names_is_allowed() {
        let access = Access::default();
        access.grant("secret", "worker", vec![Rule::new("boxes", "pods", &["get", "list"])]);
        access.grant("root", "admin", vec![Rule::all()]);
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
                asked(&access, token, verb, resource, namespace),
                refused,
                "{token} {verb} {resource}"
            );
        }
    }
}
