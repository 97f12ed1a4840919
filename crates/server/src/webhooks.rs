//! Webhooks: one signed POST when an execution has ended, retried until the receiver accepts it.
//!
//! Pending webhooks are in the store's outbox, written by the transaction that ends the execution, so
//! none is lost and any server can deliver it. Callers name the receivers, so their URLs are not
//! trusted: see [`Target`].

mod address;
mod deliver;
mod message;
mod resolver;
mod target;

pub(crate) use message::WebhookSigner;
pub(crate) use target::WebhookUrl;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::config::{Config, Role};
use crate::startup::serve::ServeError;
use deliver::{Deliverer, deliver_until};

/// The delivery task of this process.
pub(crate) struct WebhookDelivery {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl WebhookDelivery {
    /// Starts the delivery in a process that serves the API. Workers deliver nothing: their network may
    /// have no route to the receivers.
    pub(crate) fn start(config: &Config, app: &App) -> Result<WebhookDelivery, ServeError> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        if config.role != Role::Worker {
            let deliverer = Deliverer::new(config, app.store.clone(), app.signatures.clone());
            tasks.spawn(deliver_until(
                deliverer.map_err(ServeError::WebhookDelivery)?,
                stop.clone(),
            ));
        }
        tasks.close();
        Ok(WebhookDelivery { stop, tasks })
    }

    /// Delivers what is due now, then stops.
    pub(crate) async fn finish(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}
