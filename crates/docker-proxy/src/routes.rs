//! Every route the proxy has, on one screen, and how a path is matched with it.
//!
//! What stands here is what the launcher needs. There is no exec, no archive, no build, no pull, no
//! network, no removal of volumes, and no route that this table does not name.

use http::Method;

use crate::query::{Param, Value};
use crate::refusal::{Checked, Refusal, malformed};

/// One thing that may be asked of the engine.
#[derive(Debug)]
pub struct Route {
    pub method: Method,
    /// With at most one `{…}`.
    pub path: &'static str,
    /// The only parameters it takes, each at most once.
    pub query: &'static [Param],
    pub action: Action,
}

/// What is checked, and what is sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sent on as it is.
    Read,
    /// The image must be on the allowlist; its id is remembered.
    InspectImage,
    /// Our label is put into the filter.
    ListContainers,
    /// The body is checked and written anew.
    CreateContainer,
    /// The container must be ours.
    UseContainer,
    /// The container must be ours; the answer may take as long as the container runs.
    WaitContainer,
    /// The container must be ours; the answer is a stream in both directions.
    AttachContainer,
    /// The body is checked and written anew; a volume of that name must be ours.
    CreateVolume,
    /// The volume must be ours.
    InspectVolume,
}

#[rustfmt::skip] // One route a line, in columns, is what makes it readable.
pub const ROUTES: &[Route] = &[
    route(Method::GET,    "/_ping",                     &[],     Action::Read),
    route(Method::HEAD,   "/_ping",                     &[],     Action::Read),
    route(Method::GET,    "/version",                   &[],     Action::Read),
    route(Method::GET,    "/info",                      &[],     Action::Read),
    route(Method::GET,    "/images/{image}/json",       &[],     Action::InspectImage),
    route(Method::GET,    "/containers/json",           LIST,    Action::ListContainers),
    route(Method::POST,   "/containers/create",         CREATE,  Action::CreateContainer),
    route(Method::GET,    "/containers/{id}/json",      INSPECT, Action::UseContainer),
    route(Method::GET,    "/containers/{id}/stats",     STATS,   Action::UseContainer),
    route(Method::POST,   "/containers/{id}/start",     &[],     Action::UseContainer),
    route(Method::POST,   "/containers/{id}/kill",      KILL,    Action::UseContainer),
    route(Method::POST,   "/containers/{id}/wait",      WAIT,    Action::WaitContainer),
    route(Method::POST,   "/containers/{id}/attach",    ATTACH,  Action::AttachContainer),
    route(Method::DELETE, "/containers/{id}",           DELETE,  Action::UseContainer),
    route(Method::POST,   "/volumes/create",            &[],     Action::CreateVolume),
    route(Method::GET,    "/volumes/{id}",              &[],     Action::InspectVolume),
];

const LIST: &[Param] = &[
    ("all", Value::Flag),
    ("limit", Value::Number),
    ("size", Value::Off),
    ("filters", Value::Filters),
];
const CREATE: &[Param] = &[("name", Value::Name), ("platform", Value::Empty)];
const INSPECT: &[Param] = &[("size", Value::Off)];
// A stream of figures has no end; one answer has.
const STATS: &[Param] = &[("stream", Value::RequiredOff), ("one-shot", Value::Flag)];
const KILL: &[Param] =
    &[("signal", Value::OneOf(&["SIGKILL", "KILL", "SIGTERM", "TERM", "SIGINT", "INT"]))];
const WAIT: &[Param] = &[("condition", Value::OneOf(&["not-running", "next-exit", "removed"]))];
const ATTACH: &[Param] = &[
    ("stream", Value::Flag),
    ("stdin", Value::Flag),
    ("stdout", Value::Flag),
    ("stderr", Value::Flag),
    ("logs", Value::Flag),
];
const DELETE: &[Param] = &[("force", Value::Flag), ("v", Value::Flag), ("link", Value::Off)];

const fn route(
    method: Method,
    path: &'static str,
    query: &'static [Param],
    action: Action,
) -> Route {
    Route { method, path, query, action }
}

/// A route, and what stood in the request's path for its `{…}`.
#[derive(Debug)]
pub struct Match<'a> {
    pub route: &'static Route,
    /// `/v1.NN` or nothing.
    pub version: &'a str,
    /// What stood for `{…}`; empty where the route has none.
    pub name: &'a str,
}

/// API versions of the engines this was tried with and of those to come. Older ones have looser
/// defaults: before 1.40 a container's shared memory may be joined by others, before 1.41 it is in
/// the host's cgroup namespace.
const VERSIONS: std::ops::RangeInclusive<u8> = 41..=99;

const LONGEST_PATH: usize = 512;

/// Finds the route of a path that has nothing odd about it.
pub fn find<'a>(method: &Method, path: &'a str) -> Checked<Match<'a>> {
    plain(path)?;
    let (version, rest) = split_version(path)?;
    let found = ROUTES
        .iter()
        .filter(|route| route.method == *method)
        .find_map(|route| Some((route, capture(route.path, rest)?)));
    let Some((route, name)) = found else {
        return Err(Refusal::Route(format!("{method} {rest:?}")));
    };
    Ok(Match { route, version, name })
}

/// Paths with two spellings are refused, so that what we read is what the engine reads.
fn plain(path: &str) -> Checked {
    if path.len() > LONGEST_PATH {
        return malformed("its path is too long");
    }
    if !path.starts_with('/') {
        return malformed("its path does not start with a slash");
    }
    let odd = |byte: u8| !(byte.is_ascii_alphanumeric() || b"/._:@-".contains(&byte));
    if path.bytes().any(odd) {
        return malformed("its path has characters that no route has");
    }
    if path[1..].split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return malformed("its path has an empty or a dot segment");
    }
    Ok(())
}

fn split_version(path: &str) -> Checked<(&str, &str)> {
    let Some(after) = path.strip_prefix("/v1.") else { return Ok(("", path)) };
    let digits = after.find('/').unwrap_or(after.len());
    let known = digits == 2 && after[..digits].parse().is_ok_and(|minor| VERSIONS.contains(&minor));
    if !known {
        return malformed(format!(
            "its API version is not between 1.{} and 1.{}",
            VERSIONS.start(),
            VERSIONS.end()
        ));
    }
    Ok(path.split_at("/v1.".len() + digits))
}

/// What stands for the `{…}` of the pattern; an image's name may have slashes, nothing else may.
fn capture<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return (pattern == path).then_some("");
    };
    let (kind, after) = rest.split_once('}').expect("a pattern of the table closes its brace");
    let name = path.strip_prefix(before)?.strip_suffix(after)?;
    (!name.is_empty() && (kind == "image" || !name.contains('/'))).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_find_their_routes() {
        for (method, path, action, name) in [
            (Method::GET, "/_ping", Action::Read, ""),
            (Method::GET, "/v1.44/info", Action::Read, ""),
            (Method::GET, "/containers/json", Action::ListContainers, ""),
            (Method::GET, "/v1.53/containers/abc/json", Action::UseContainer, "abc"),
            (Method::DELETE, "/containers/abc", Action::UseContainer, "abc"),
            (
                Method::GET,
                "/images/python:3.12-slim/json",
                Action::InspectImage,
                "python:3.12-slim",
            ),
            (
                Method::GET,
                "/images/host:5000/a/b@sha256:12/json",
                Action::InspectImage,
                "host:5000/a/b@sha256:12",
            ),
        ] {
            let found = find(&method, path).expect(path);
            assert_eq!((found.route.action, found.name), (action, name), "{path}");
        }
    }

    #[test]
    fn nothing_else_does() {
        let long = format!("/containers/{}/json", "a".repeat(LONGEST_PATH));
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
