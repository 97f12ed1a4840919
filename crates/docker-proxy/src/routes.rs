//! All routes of the proxy in one table, and the matching of paths.
//!
//! The table has only what the launcher needs: no exec, archive, build, pull, network or removal of
//! volumes. A request for any other route is rejected.

use http::Method;

use crate::query::{ParamRule, QueryParam};
use crate::request_error::{RequestError, RequestResult, malformed};

/// One request that clients may send to the engine.
#[derive(Debug)]
pub(crate) struct Route {
    pub method: Method,
    /// With at most one `{…}` placeholder.
    pub path: &'static str,
    /// The only parameters it accepts, each at most once.
    pub query: &'static [QueryParam],
    pub action: RouteAction,
}

/// What is checked before a request is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteAction {
    /// Forwarded without further checks.
    Read,
    /// The image must be on the allowlist; its id is cached.
    InspectImage,
    /// Our label is added to the filters.
    ListContainers,
    /// The body is checked and serialized again.
    CreateContainer,
    /// The container must be ours.
    UseContainer,
    /// The container must be ours; the response may take as long as the container runs.
    WaitContainer,
    /// The container must be ours; the response is a bidirectional stream.
    AttachContainer,
    /// The body is checked and serialized again; an existing volume of that name must be ours.
    CreateVolume,
    /// The volume must be ours.
    InspectVolume,
}

#[rustfmt::skip] // One route a line, in columns, is what makes it readable.
pub(crate) const ROUTES: &[Route] = &[
    route(Method::GET,    "/_ping",                     &[],     RouteAction::Read),
    route(Method::HEAD,   "/_ping",                     &[],     RouteAction::Read),
    route(Method::GET,    "/version",                   &[],     RouteAction::Read),
    route(Method::GET,    "/info",                      &[],     RouteAction::Read),
    route(Method::GET,    "/images/{image}/json",       &[],     RouteAction::InspectImage),
    route(Method::GET,    "/containers/json",           LIST,    RouteAction::ListContainers),
    route(Method::POST,   "/containers/create",         CREATE,  RouteAction::CreateContainer),
    route(Method::GET,    "/containers/{id}/json",      INSPECT, RouteAction::UseContainer),
    route(Method::GET,    "/containers/{id}/stats",     STATS,   RouteAction::UseContainer),
    route(Method::POST,   "/containers/{id}/start",     &[],     RouteAction::UseContainer),
    route(Method::POST,   "/containers/{id}/kill",      KILL,    RouteAction::UseContainer),
    route(Method::POST,   "/containers/{id}/wait",      WAIT,    RouteAction::WaitContainer),
    route(Method::POST,   "/containers/{id}/attach",    ATTACH,  RouteAction::AttachContainer),
    route(Method::DELETE, "/containers/{id}",           DELETE,  RouteAction::UseContainer),
    route(Method::POST,   "/volumes/create",            &[],     RouteAction::CreateVolume),
    route(Method::GET,    "/volumes/{id}",              &[],     RouteAction::InspectVolume),
];

const LIST: &[QueryParam] = &[
    ("all", ParamRule::Flag),
    ("limit", ParamRule::Number),
    ("size", ParamRule::Off),
    ("filters", ParamRule::ListFilters),
];
const CREATE: &[QueryParam] = &[("name", ParamRule::Name), ("platform", ParamRule::Empty)];
const INSPECT: &[QueryParam] = &[("size", ParamRule::Off)];
// A statistics stream never ends, so only single responses are allowed.
const STATS: &[QueryParam] = &[("stream", ParamRule::RequiredOff), ("one-shot", ParamRule::Flag)];
const KILL: &[QueryParam] =
    &[("signal", ParamRule::OneOf(&["SIGKILL", "KILL", "SIGTERM", "TERM", "SIGINT", "INT"]))];
const WAIT: &[QueryParam] =
    &[("condition", ParamRule::OneOf(&["not-running", "next-exit", "removed"]))];
const ATTACH: &[QueryParam] = &[
    ("stream", ParamRule::Flag),
    ("stdin", ParamRule::Flag),
    ("stdout", ParamRule::Flag),
    ("stderr", ParamRule::Flag),
    ("logs", ParamRule::Flag),
];
const DELETE: &[QueryParam] =
    &[("force", ParamRule::Flag), ("v", ParamRule::Flag), ("link", ParamRule::Off)];

impl Route {
    /// The path for this target, without the API version.
    pub(crate) fn path_for(&self, target: &str) -> String {
        match self.path.split_once('{') {
            Some((before, rest)) => {
                let after = rest.split_once('}').map_or("", |(_, after)| after);
                format!("{before}{target}{after}")
            }
            None => self.path.to_owned(),
        }
    }
}

const fn route(
    method: Method,
    path: &'static str,
    query: &'static [QueryParam],
    action: RouteAction,
) -> Route {
    Route { method, path, query, action }
}

/// A route, and the parts of the request's path.
#[derive(Debug)]
pub(crate) struct RouteMatch<'a> {
    pub route: &'static Route,
    /// `/v1.NN` or empty.
    pub version: &'a str,
    /// The part that matched `{…}`; empty where the route has none.
    pub target: &'a str,
}

/// API versions of tested and future engines. Older versions have weaker defaults: before 1.40
/// other containers can join a container's shared memory, before 1.41 a container is in the host's
/// cgroup namespace.
const VERSIONS: std::ops::RangeInclusive<u8> = 41..=99;

const MAX_PATH_BYTES: usize = 512;

/// Finds the route of an unambiguous path.
pub(crate) fn find<'a>(method: &Method, path: &'a str) -> RequestResult<RouteMatch<'a>> {
    check_spelling(path)?;
    let (version, rest) = split_version(path)?;
    let found = ROUTES
        .iter()
        .filter(|route| route.method == *method)
        .find_map(|route| Some((route, capture(route.path, rest)?)));
    let Some((route, target)) = found else {
        return Err(RequestError::UnknownRoute(format!("{method} {rest:?}")));
    };
    Ok(RouteMatch { route, version, target })
}

/// Rejects paths with more than one spelling, so that the engine reads the same path as we do.
fn check_spelling(path: &str) -> RequestResult {
    if path.len() > MAX_PATH_BYTES {
        return malformed("its path is too long");
    }
    if !path.starts_with('/') {
        return malformed("its path does not start with a slash");
    }
    let is_unexpected = |byte: u8| !(byte.is_ascii_alphanumeric() || b"/._:@-".contains(&byte));
    if path.bytes().any(is_unexpected) {
        return malformed("its path has characters that no route uses");
    }
    if path[1..].split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return malformed("its path has an empty or a dot segment");
    }
    Ok(())
}

fn split_version(path: &str) -> RequestResult<(&str, &str)> {
    let Some(after) = path.strip_prefix("/v1.") else { return Ok(("", path)) };
    let digits = after.find('/').unwrap_or(after.len());
    let supported =
        digits == 2 && after[..digits].parse().is_ok_and(|minor| VERSIONS.contains(&minor));
    if !supported {
        return malformed(format!(
            "its API version is not between 1.{} and 1.{}",
            VERSIONS.start(),
            VERSIONS.end()
        ));
    }
    Ok(path.split_at("/v1.".len() + digits))
}

/// The part of the path that matches the `{…}` of the pattern. Only an image name may have slashes.
fn capture<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return (pattern == path).then_some("");
    };
    let (kind, after) = rest.split_once('}').expect("a pattern of the table has a closing brace");
    let name = path.strip_prefix(before)?.strip_suffix(after)?;
    (!name.is_empty() && (kind == "image" || !name.contains('/'))).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_paths_match_their_routes() {
        for (method, path, action, name) in [
            (Method::GET, "/_ping", RouteAction::Read, ""),
            (Method::GET, "/v1.44/info", RouteAction::Read, ""),
            (Method::GET, "/containers/json", RouteAction::ListContainers, ""),
            (Method::GET, "/v1.53/containers/abc/json", RouteAction::UseContainer, "abc"),
            (Method::DELETE, "/containers/abc", RouteAction::UseContainer, "abc"),
            (
                Method::GET,
                "/images/python:3.12-slim/json",
                RouteAction::InspectImage,
                "python:3.12-slim",
            ),
            (
                Method::GET,
                "/images/host:5000/a/b@sha256:12/json",
                RouteAction::InspectImage,
                "host:5000/a/b@sha256:12",
            ),
        ] {
            let found = find(&method, path).expect(path);
            assert_eq!((found.route.action, found.target), (action, name), "{path}");
        }
    }

    #[test]
    fn other_paths_match_no_route() {
        let long = format!("/containers/{}/json", "a".repeat(MAX_PATH_BYTES));
        for (method, path) in [
            (Method::POST, "/_ping"),
            (Method::GET, "/"),
            (Method::GET, "/v1.44"),
            (Method::GET, "/v1.44/"),
            (Method::GET, "/v1.4/info"),
            (Method::GET, "/v1.40/info"),
            (Method::GET, "/v1.+4/info"),
            (Method::GET, "/v1.444/info"),
            (Method::GET, "/v2.44/info"),
            (Method::GET, "/v1.44/v1.44/info"),
            (Method::GET, "/info/"),
            (Method::GET, "//info"),
            (Method::GET, "/./info"),
            (Method::GET, "/x/../info"),
            (Method::GET, "/%69nfo"),
            (Method::GET, "/Info"),
            (Method::GET, "/containers/a/b/json"),
            (Method::POST, "/containers/a/exec"),
            (Method::PUT, "/containers/a/archive"),
            (Method::GET, "/images/json"),
            (Method::POST, "/images/create"),
            (Method::GET, "/images//json"),
            (Method::DELETE, "/volumes/a"),
            (Method::GET, "/volumes"),
            (Method::POST, "/build"),
            (Method::GET, "info"),
            (Method::GET, "/containers/a/attach/ws"),
            (Method::GET, long.as_str()),
            (Method::OPTIONS, "*"),
        ] {
            assert!(find(&method, path).is_err(), "{method} {path}");
        }
    }
}
