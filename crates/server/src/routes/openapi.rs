//! The OpenAPI document: the handlers' annotations, and what all routes have in common.

use utoipa::PartialSchema;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, Info, License, OpenApi, Paths, Ref, RefOr, Response,
    ResponseBuilder,
};

use crate::error::{ErrorBody, Slug};
use crate::router;

/// Bytes, in the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct Binary(Vec<u8>);

/// The document that `/openapi.json` serves.
pub fn openapi() -> OpenApi {
    let mut api = router::documented().into_openapi();
    let components = api.components.get_or_insert_with(Components::new);
    components.schemas.insert("ErrorBody".into(), ErrorBody::schema());
    components.schemas.insert("Slug".into(), Slug::schema());
    let paths = std::mem::take(&mut api.paths.paths);
    for (path, mut item) in paths {
        let operations = [
            &mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch,
            &mut item.head,
        ];
        for operation in operations.into_iter().flatten() {
            add_common_responses(&path, operation);
        }
        // axum writes a rest-of-path value as `{*path}`, OpenAPI knows only `{path}`.
        api.paths.paths.insert(path.replace("{*", "{"), item);
    }
    api
}

/// The committed file: pretty, with a newline at its end.
pub fn openapi_json() -> String {
    let mut text = openapi().to_pretty_json().expect("the description is plain data");
    text.push('\n');
    text
}

/// The parts outside the routes.
pub(crate) fn head() -> OpenApi {
    let mut info = Info::new("Skillbox", env!("CARGO_PKG_VERSION"));
    info.description = Some(description());
    info.license = Some(License::new("MIT"));
    let mut api = OpenApi::new(info, Paths::new());
    let mut components = Components::new();
    let key = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme("key", key);
    api.components = Some(components);
    api.security = Some(vec![SecurityRequirement::new("key", Vec::<String>::new())]);
    api
}

fn description() -> String {
    let mut text = String::from(
        "Runs agent skills: JSON in, JSON and files out, each run in its own single-use sandbox.\n\n\
         Send a key as `Authorization: Bearer <key>`. Every response carries `X-Request-ID`. Every error is `{\"error\",\"message\",\"details\"?}`. \
         Times are RFC 3339 in UTC. Lists are arrays; the next page is in the `Link` header. \
         A service key may act for another tenant by naming it in `X-Tenant-ID`. \
         Agents can use the same skills as tools at `/mcp`, through the Model Context Protocol.\n\n\
         | error | status | meaning |\n|---|---|---|\n",
    );
    for slug in Slug::ALL {
        text.push_str(&format!(
            "| `{}` | {} | {} |\n",
            slug.as_str(),
            slug.status().as_u16(),
            slug.meaning()
        ));
    }
    text
}

/// Adds the responses that middleware and extractors give on every route of a kind.
fn add_common_responses(path: &str, operation: &mut Operation) {
    let open = operation.security.is_some();
    let mut slugs = vec![Slug::Internal];
    if !open {
        slugs.extend([Slug::Unauthorized, Slug::Forbidden]);
    }
    // A service key that names an unknown tenant gets a 404 on every route.
    if !open || path.contains('{') {
        slugs.push(Slug::NotFound);
    }
    if operation.request_body.is_some() {
        slugs.extend([
            Slug::BadRequest,
            Slug::RequestTimeout,
            Slug::TooLarge,
            Slug::UnsupportedMediaType,
        ]);
    }
    let has_query = operation.parameters.iter().flatten().any(|parameter| match parameter {
        RefOr::T(parameter) => matches!(parameter.parameter_in, ParameterIn::Query),
        RefOr::Ref(_) => false,
    });
    if has_query {
        slugs.push(Slug::BadRequest);
    }
    for answer in operation.responses.responses.values_mut() {
        if let RefOr::T(answer) = answer
            && answer.description.is_empty()
        {
            answer.description = "Success".into();
        }
    }
    for slug in slugs {
        let status = slug.status().as_u16().to_string();
        let answers = &mut operation.responses.responses;
        answers.entry(status).or_insert_with(|| RefOr::T(error_response(slug)));
    }
}

fn error_response(slug: Slug) -> Response {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    ResponseBuilder::new()
        .description(format!("`{}`: {}", slug.as_str(), slug.meaning()))
        .content("application/json", body)
        .build()
}
