//! Why a request goes no further, as the sentence that its sender and the log get.

use http::StatusCode;

/// A request that was not answered by the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request itself is odd.
    #[error("this request is not one that a launcher sends: {0}")]
    Malformed(String),
    /// Not in the table of routes.
    #[error("this proxy does not let {0} through")]
    Route(String),
    /// A body or a parameter says something that no sandbox needs.
    #[error("this proxy does not let this through: {0}")]
    Forbidden(String),
    /// Not ours, or not there: the two look the same.
    #[error("no such {0}")]
    Hidden(&'static str),
    /// A volume of that name is not ours to fill.
    #[error(
        "a volume {0:?} is on the engine and was not made by a proxy of this name. Remove it there (docker volume rm \
         {0}), or run the proxy under the name that made it"
    )]
    Taken(String),
    /// A bound on how often something is done.
    #[error("too many requests: {0}")]
    TooMany(String),
    #[error("the request's body is longer than {0} bytes")]
    TooLarge(usize),
    #[error("the request took too long to arrive")]
    Slow,
    #[error("the Docker engine cannot be reached: {0}. Is it running, and is the address right?")]
    EngineGone(String),
    #[error("the Docker engine gave no usable answer: {0}")]
    EngineOdd(String),
    #[error("the Docker engine did not answer in time")]
    EngineSlow,
}

impl Refusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::Malformed(_) => StatusCode::BAD_REQUEST,
            Refusal::Route(_) | Refusal::Forbidden(_) => StatusCode::FORBIDDEN,
            Refusal::Hidden(_) => StatusCode::NOT_FOUND,
            Refusal::Taken(_) => StatusCode::CONFLICT,
            Refusal::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            Refusal::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::Slow => StatusCode::REQUEST_TIMEOUT,
            Refusal::EngineGone(_) | Refusal::EngineOdd(_) => StatusCode::BAD_GATEWAY,
            Refusal::EngineSlow => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// What a check gives back.
pub type Checked<T = ()> = Result<T, Refusal>;

/// Something in a body or a parameter that is not let through.
pub fn forbidden<T>(what: impl Into<String>) -> Checked<T> {
    Err(Refusal::Forbidden(what.into()))
}

/// Something about the request itself that is odd.
pub fn malformed<T>(what: impl Into<String>) -> Checked<T> {
    Err(Refusal::Malformed(what.into()))
}
