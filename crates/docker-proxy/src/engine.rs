//! Client of the engine behind the proxy. Each request has its own connection, so that no part of
//! one request can affect another.

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
use crate::config::ProxyLimits;
use crate::request_error::{RequestError, RequestResult};

pub(crate) struct EngineClient {
    address: Address,
    limits: ProxyLimits,
}

/// A request as the engine receives it; every part of it is written by this proxy.
#[derive(Debug, Clone)]
pub(crate) struct EngineRequest {
    pub method: Method,
    pub path: String,
    /// The object in the path, by its id where it has one.
    pub target: String,
    pub body: Option<Bytes>,
    pub upgrade: bool,
}

impl EngineRequest {
    pub(crate) fn get(path: String) -> EngineRequest {
        EngineRequest {
            method: Method::GET,
            path,
            target: String::new(),
            body: None,
            upgrade: false,
        }
    }

    fn into_http(self, host: &str) -> RequestResult<Request<Full<Bytes>>> {
        let mut request =
            Request::builder().method(&self.method).uri(self.path).header(header::HOST, host);
        if self.upgrade {
            request = request.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "tcp");
        }
        if self.body.is_some() {
            request =
                request.header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        } else if self.method == Method::POST {
            // Some filtering proxies require a length even for an empty body.
            request = request.header(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let request = request.body(Full::new(self.body.unwrap_or_default()));
        request.map_err(|error| RequestError::Malformed(error.to_string()))
    }
}

impl EngineClient {
    pub(crate) fn new(address: Address, limits: ProxyLimits) -> EngineClient {
        EngineClient { address, limits }
    }

    /// Sends the request and waits for the head of the response.
    pub(crate) async fn send(&self, request: EngineRequest) -> RequestResult<Response<Incoming>> {
        let unreachable =
            |error: &dyn std::fmt::Display| RequestError::EngineUnreachable(error.to_string());
        let connected = with_timeout(self.limits.connect_timeout, self.address.connect()).await?;
        let stream = connected.map_err(|error| unreachable(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
        // The task needs no handle: the connection closes when the response ends, or when the
        // sender and the response body are dropped.
        tokio::spawn(connection.with_upgrades());
        let request = request.into_http(self.host())?;
        let response =
            with_timeout(self.limits.response_timeout, sender.send_request(request)).await?;
        response.map_err(|error| unreachable(&error))
    }

    /// The Host header to send. Another proxy of ours accepts only its own names.
    fn host(&self) -> &str {
        match &self.address {
            Address::Tcp(authority) => authority,
            Address::Unix(_) => "docker",
        }
    }

    /// Reads the whole body of a response.
    pub(crate) async fn collect(&self, body: Incoming) -> RequestResult<Bytes> {
        let body = Limited::new(body, self.limits.max_response_bytes).collect();
        let body = with_timeout(self.limits.response_timeout, body).await?;
        body.map(|body| body.to_bytes())
            .map_err(|error| RequestError::EngineResponse(error.to_string()))
    }

    /// Sends a request of the proxy's own; `None` when the engine has no such object.
    pub(crate) async fn get_json<T: DeserializeOwned>(
        &self,
        path: String,
    ) -> RequestResult<Option<T>> {
        let response = self.send(EngineRequest::get(path)).await?;
        let status = response.status();
        let body = self.collect(response.into_body()).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|error| RequestError::EngineResponse(error.to_string())),
            other => Err(RequestError::EngineResponse(format!(
                "a request of the proxy failed with {other}"
            ))),
        }
    }
}

async fn with_timeout<F: Future>(limit: Duration, work: F) -> RequestResult<F::Output> {
    timeout(limit, work).await.map_err(|_| RequestError::EngineTimeout)
}
