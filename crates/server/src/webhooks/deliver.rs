//! The delivery loop: claims due webhooks from the outbox and sends them, some at a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use reqwest::StatusCode;
use reqwest::redirect::Policy;
use store::{Notification, Store, StoreError, Webhook};
use tokio_util::sync::CancellationToken;

use super::message::WebhookSigner;
use super::resolver::PublicResolver;
use super::target::WebhookUrl;
use crate::config::Config;
use crate::error::error_chain;
use crate::http::links::unix_now;

/// Deliveries in parallel, which is also how many webhooks are claimed from the outbox at once.
const MAX_CONCURRENT_DELIVERIES: usize = 16;
/// How often the outbox is checked without a notification: a retry becomes due without one.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The lease lasts longer than the receiver's timeout by this much, so that no other server delivers
/// the same webhook meanwhile.
const LEASE_MARGIN: Duration = Duration::from_secs(20);

/// Sends webhooks.
pub(super) struct Deliverer {
    store: Store,
    signatures: Arc<WebhookSigner>,
    http: reqwest::Client,
    private_hosts: Arc<[String]>,
    lease: Duration,
}

/// The result of one delivery attempt.
enum DeliveryResult {
    Delivered,
    /// It will not be retried: the execution was deleted, or the receiver does not want it.
    Final(&'static str),
    Failed(String),
}

impl Deliverer {
    pub(super) fn new(
        config: &Config,
        store: Store,
        signatures: Arc<WebhookSigner>,
    ) -> Result<Deliverer, reqwest::Error> {
        let private_hosts: Arc<[String]> = config.webhook_private_hosts.clone().into();
        let builder = || {
            reqwest::Client::builder()
                .timeout(config.webhook_timeout)
                // A redirect would bypass the checks of the URL.
                .redirect(Policy::none())
                .no_proxy()
                .dns_resolver(Arc::new(PublicResolver { private_hosts: private_hosts.clone() }))
                .pool_max_idle_per_host(0)
                .user_agent(concat!("skillbox/", env!("CARGO_PKG_VERSION")))
        };
        let http = builder().build().or_else(|error| {
            // The server starts anyway: without CA certificates each delivery over https fails, and is
            // retried.
            tracing::warn!(
                error = error_chain(&error),
                "webhooks to https fail until ca-certificates is installed"
            );
            builder().tls_certs_only([]).build()
        })?;
        Ok(Deliverer {
            store,
            signatures,
            http,
            private_hosts,
            lease: config.webhook_timeout + LEASE_MARGIN,
        })
    }

    /// Delivers the webhooks that are due and returns their number.
    async fn deliver_due(&self) -> Result<usize, StoreError> {
        let lease_ms = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        let due = self
            .store
            .claim_webhooks(store::now(), MAX_CONCURRENT_DELIVERIES as i64, lease_ms)
            .await?;
        let count = due.len();
        stream::iter(due)
            .for_each_concurrent(MAX_CONCURRENT_DELIVERIES, |webhook| self.deliver_one(webhook))
            .await;
        Ok(count)
    }

    /// Delivers one webhook and records the result. When the record fails, the webhook is due again
    /// after its lease: a receiver may get it twice, but never not at all.
    async fn deliver_one(&self, webhook: Webhook) {
        let id = webhook.execution_id;
        let recorded = match self.send(&webhook).await {
            DeliveryResult::Delivered => {
                self.store.mark_webhook_delivered(&webhook).await.map(drop)
            }
            DeliveryResult::Final(why) => self.store.give_up_webhook(&webhook, why).await,
            DeliveryResult::Failed(why) => {
                tracing::info!(execution_id = %id, attempt = webhook.attempt, why, "a webhook was not accepted");
                self.store.record_webhook_failure(&webhook, &why).await.map(drop)
            }
        };
        if let Err(error) = recorded {
            tracing::warn!(execution_id = %id, error = error_chain(&error), "the result of a webhook could not be recorded");
        }
    }

    async fn send(&self, webhook: &Webhook) -> DeliveryResult {
        // Checked again, because the operator's list may have changed since the URL was accepted.
        let target = match WebhookUrl::parse(&webhook.url, &self.private_hosts) {
            Ok(target) => target,
            Err(error) => return DeliveryResult::Failed(error.to_string()),
        };
        let execution = match self.store.get_execution(&webhook.tenant, webhook.execution_id).await
        {
            Ok(Some(execution)) => execution,
            Ok(None) => return DeliveryResult::Final("the execution is no longer kept"),
            Err(_) => return DeliveryResult::Failed("the execution could not be read".to_owned()),
        };
        let message = self.signatures.message(&execution, unix_now());
        let request = self
            .http
            .post(target.url)
            .header("content-type", "application/json")
            .header("webhook-id", message.id)
            .header("webhook-timestamp", message.timestamp)
            .header("webhook-signature", message.signature)
            .body(message.body);
        // The response body is not read: it has no meaning, and its size is not limited.
        match request.send().await.map(|answer| answer.status()) {
            Ok(status) if status.is_success() => DeliveryResult::Delivered,
            Ok(StatusCode::GONE) => DeliveryResult::Final("the receiver answered 410"),
            Ok(status) => {
                DeliveryResult::Failed(format!("the receiver answered {}", status.as_u16()))
            }
            Err(error) if error.is_timeout() => {
                DeliveryResult::Failed("the receiver did not answer in time".to_owned())
            }
            Err(error) => {
                // The details stay in the log: the caller must not learn the addresses behind a name.
                tracing::debug!(execution_id = %webhook.execution_id, error = error_chain(&error), "a webhook failed");
                DeliveryResult::Failed("the receiver could not be reached".to_owned())
            }
        }
    }
}

/// Delivers until `stop` is cancelled; deliveries in progress are finished.
pub(super) async fn deliver_until(deliverer: Deliverer, stop: CancellationToken) {
    let mut notifications = deliverer.store.notifications();
    loop {
        // Read before the claim, so that what was due at the cancellation is still delivered.
        let last = stop.is_cancelled();
        match deliverer.deliver_due().await {
            Ok(MAX_CONCURRENT_DELIVERIES..) if !last => continue,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "webhooks could not be claimed from the outbox"
                )
            }
        }
        if last {
            return;
        }
        let ended = async {
            while let Some(notification) = notifications.next().await {
                if matches!(notification, Notification::Ended(_) | Notification::Missed) {
                    return;
                }
            }
        };
        tokio::select! {
            () = ended => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = stop.cancelled() => {}
        }
    }
}
