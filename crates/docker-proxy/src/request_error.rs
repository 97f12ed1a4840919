//! Why a request fails, as the sentence that its sender and the log receive.

use http::StatusCode;

/// A request that the engine did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request itself is ambiguous or invalid.
    #[error("this request is not one that a launcher sends: {0}")]
    Malformed(String),
    /// Not in the table of routes.
    #[error("this proxy does not allow {0}")]
    UnknownRoute(String),
    /// A value in a body or a parameter that no sandbox needs.
    #[error("this proxy does not allow {0}")]
    Forbidden(String),
    /// Not ours, or missing: the two cannot be told apart from outside.
    #[error("no such {0}")]
    NotVisible(&'static str),
    /// A volume of that name exists and has another owner.
    #[error(
        "a volume {0:?} exists on the engine and was not created by a proxy of this name. Remove it there (docker volume rm \
         {0}), or run the proxy under the name that created it"
    )]
    VolumeTaken(String),
    /// A limit on how often an operation is done.
    #[error("too many requests: {0}")]
    RateLimited(String),
    #[error("the request's body is longer than {0} bytes")]
    BodyTooLarge(usize),
    #[error("the request took too long to arrive")]
    BodyTimeout,
    #[error(
        "the Docker engine cannot be reached: {0}. Check that it runs and that the address is right"
    )]
    EngineUnreachable(String),
    #[error("the Docker engine sent an invalid response: {0}")]
    EngineResponse(String),
    #[error("the Docker engine did not respond in time")]
    EngineTimeout,
}

impl RequestError {
    pub fn status(&self) -> StatusCode {
        match self {
            RequestError::Malformed(_) => StatusCode::BAD_REQUEST,
            RequestError::UnknownRoute(_) | RequestError::Forbidden(_) => StatusCode::FORBIDDEN,
            RequestError::NotVisible(_) => StatusCode::NOT_FOUND,
            RequestError::VolumeTaken(_) => StatusCode::CONFLICT,
            RequestError::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
            RequestError::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            RequestError::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            RequestError::EngineUnreachable(_) | RequestError::EngineResponse(_) => {
                StatusCode::BAD_GATEWAY
            }
            RequestError::EngineTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// The result of a check or a step of a request.
pub(crate) type RequestResult<T = ()> = Result<T, RequestError>;

/// A value in a body or a parameter that is not allowed.
pub(crate) fn forbidden<T>(what: impl Into<String>) -> RequestResult<T> {
    Err(RequestError::Forbidden(what.into()))
}

/// A property of the request itself that makes it invalid.
pub(crate) fn malformed<T>(what: impl Into<String>) -> RequestResult<T> {
    Err(RequestError::Malformed(what.into()))
}
