//! Telling a receiver that an execution has ended: one signed POST, repeated until it is taken.
//!
//! What is owed is in the store's outbox, written by the transaction that ended the execution, so
//! no end is forgotten and any server can deliver it. Receivers are named by callers, so they are
//! not trusted: see [`Target`].

mod address;
mod deliver;
mod message;
mod resolver;
mod target;

pub use message::WebhookSigner;
pub use target::WebhookUrl;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::config::{Config, Role};
use crate::startup::serve::ServeError;
use deliver::{Deliverer, deliver_until};

/// The deliverer of this process, until it is told to finish.
pub struct WebhookDelivery {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl WebhookDelivery {
    /// Begins to deliver, in a process that also answers callers: workers may live where there is
    /// no way out.
    pub fn start(config: &Config, app: &App) -> Result<WebhookDelivery, ServeError> {
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

    /// Makes what is due now, and no more.
    pub async fn finish(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}
