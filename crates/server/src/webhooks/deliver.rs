//! The deliverer: takes what is due from the outbox and calls the receivers, a few at a time.

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

/// Receivers that are called at the same time, and how many calls are taken from the outbox at
/// once.
const MAX_CONCURRENT_DELIVERIES: usize = 16;
/// How often to look when nobody announced anything: a call that failed becomes due by itself.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Beyond the receiver's time, before another server may take the call over.
const LEASE_MARGIN: Duration = Duration::from_secs(20);

/// Calls receivers.
pub struct Deliverer {
    store: Store,
    signatures: Arc<WebhookSigner>,
    http: reqwest::Client,
    private_hosts: Arc<[String]>,
    lease: Duration,
}

/// What a call came to.
enum DeliveryResult {
    Delivered,
    /// There is nothing more to say, or nobody who wants to hear it.
    Final(&'static str),
    Failed(String),
}

impl Deliverer {
    pub fn new(
        config: &Config,
        store: Store,
        signatures: Arc<WebhookSigner>,
    ) -> Result<Deliverer, reqwest::Error> {
        let private_hosts: Arc<[String]> = config.webhook_private_hosts.clone().into();
        let builder = || {
            reqwest::Client::builder()
                .timeout(config.webhook_timeout)
                // A redirect would lead past every check.
                .redirect(Policy::none())
                .no_proxy()
                .dns_resolver(Arc::new(PublicResolver { private_hosts: private_hosts.clone() }))
                .pool_max_idle_per_host(0)
                .user_agent(concat!("skillbox/", env!("CARGO_PKG_VERSION")))
        };
        let http = builder().build().or_else(|error| {
            // No reason not to start: without certificates every https receiver is refused, call by
            // call.
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

    /// Makes every call that is due, and says how many there were.
    async fn deliver(&self) -> Result<usize, StoreError> {
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

    /// Makes one call and writes down what it came to. If that fails, the call is due again when
    /// its lease ends: receivers may hear twice of an execution, never not at all.
    async fn deliver_one(&self, webhook: Webhook) {
        let id = webhook.execution_id;
        let noted = match self.call(&webhook).await {
            DeliveryResult::Delivered => {
                self.store.mark_webhook_delivered(&webhook).await.map(drop)
            }
            DeliveryResult::Final(why) => self.store.give_up_webhook(&webhook, why).await,
            DeliveryResult::Failed(why) => {
                tracing::info!(execution_id = %id, attempt = webhook.attempt, why, "a webhook was not taken");
                self.store.record_webhook_failure(&webhook, &why).await.map(drop)
            }
        };
        if let Err(error) = noted {
            tracing::warn!(execution_id = %id, error = error_chain(&error), "a webhook's end could not be written down");
        }
    }

    async fn call(&self, webhook: &Webhook) -> DeliveryResult {
        // The operator's list may have changed since the URL was accepted.
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
        // The answer's body is nobody's business, so it is not read at all.
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
                // Which address a name leads to is for our log, not for whoever named it.
                tracing::debug!(execution_id = %webhook.execution_id, error = error_chain(&error), "a webhook failed");
                DeliveryResult::Failed("the receiver could not be reached".to_owned())
            }
        }
    }
}

/// Delivers until told to stop; calls under way are finished.
pub async fn deliver_until(deliverer: Deliverer, stop: CancellationToken) {
    let mut announcements = deliverer.store.notifications();
    loop {
        // Asked before the look, so that whatever was owed when we were told to stop is still seen.
        let last = stop.is_cancelled();
        match deliverer.deliver().await {
            Ok(MAX_CONCURRENT_DELIVERIES..) if !last => continue,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "webhooks could not be taken from the outbox"
                )
            }
        }
        if last {
            return;
        }
        let ended = async {
            while let Some(announcement) = announcements.next().await {
                if matches!(announcement, Notification::Ended(_) | Notification::Missed) {
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
