//! The engine behind the proxy: one connection a request, so that nothing of one request can reach
//! another.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::address::Address;
use crate::config::Limits;
use crate::refusal::{Checked, Refusal};

pub struct Engine {
    address: Address,
    limits: Limits,
}

/// A request as the engine gets it: every part of it written by us.
#[derive(Debug, Clone)]
pub struct Order {
    pub method: Method,
    pub path: String,
    /// What the path is about, by its id where it has one.
    pub target: String,
    pub body: Option<Bytes>,
    pub upgrade: bool,
}

impl Order {
    pub fn get(path: String) -> Order {
        Order { method: Method::GET, path, target: String::new(), body: None, upgrade: false }
    }

    fn request(self, host: &str) -> Checked<Request<Full<Bytes>>> {
        let mut request =
            Request::builder().method(&self.method).uri(self.path).header(header::HOST, host);
        if self.upgrade {
            request = request.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "tcp");
        }
        if self.body.is_some() {
            request =
                request.header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        } else if self.method == Method::POST {
            // Some filters in between want to know the length even of nothing.
            request = request.header(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let request = request.body(Full::new(self.body.unwrap_or_default()));
        request.map_err(|error| Refusal::Malformed(error.to_string()))
    }
}

impl Engine {
    pub fn new(address: Address, limits: Limits) -> Engine {
        Engine { address, limits }
    }

    /// Sends the request and waits for the head of the answer.
    pub async fn send(&self, order: Order) -> Checked<Response<Incoming>> {
        let gone = |error: &dyn std::fmt::Display| Refusal::EngineGone(error.to_string());
        let connected = in_time(self.limits.connect, self.address.connect()).await?;
        let stream = connected.map_err(|error| gone(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| gone(&error))?;
        // It ends with the answer, or with whoever reads it: both halves hang on the sender and on
        // the body.
        tokio::spawn(connection.with_upgrades());
        let answer =
            in_time(self.limits.answer, sender.send_request(order.request(self.host())?)).await?;
        answer.map_err(|error| gone(&error))
    }

    /// By which name it is asked: another proxy of ours answers to its own only.
    fn host(&self) -> &str {
        match &self.address {
            Address::Tcp(place) => place,
            Address::Unix(_) => "docker",
        }
    }

    /// The whole body of an answer.
    pub async fn collect(&self, body: Incoming) -> Checked<Bytes> {
        let body =
            in_time(self.limits.answer, Limited::new(body, self.limits.answer_bytes).collect())
                .await?;
        body.map(|body| body.to_bytes()).map_err(|error| Refusal::EngineOdd(error.to_string()))
    }

    /// Asks a question of our own; nothing when the engine knows no such thing.
    pub async fn look_up<T: DeserializeOwned>(&self, path: String) -> Checked<Option<T>> {
        let answer = self.send(Order::get(path)).await?;
        let status = answer.status();
        let body = self.collect(answer.into_body()).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|error| Refusal::EngineOdd(error.to_string())),
            other => Err(Refusal::EngineOdd(format!(
                "a question of the proxy was answered with {other}"
            ))),
        }
    }
}

async fn in_time<F: Future>(limit: Duration, work: F) -> Checked<F::Output> {
    timeout(limit, work).await.map_err(|_| Refusal::EngineSlow)
}
