//! The first key. A server that other machines can reach never generates one: its operator must set
//! it.

use store::{ApiKey, NewApiKey, Scope, Store, StoreError, TenantId};

use crate::auth::{Keyring, display_prefix, new_key};
use crate::config::Config;
use crate::startup::data_dir::{DataDir, DataDirError};

/// The tenant of the first key.
const TENANT: &str = "default";

/// Why there is no first key.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error(
        "SKILLBOX_BIND={0} opens the server to other machines, and no key exists yet. Set SKILLBOX_BOOTSTRAP_KEY, \
         or start once on 127.0.0.1 to get a first key."
    )]
    OpenWithoutKeys(std::net::IpAddr),
    #[error(
        "no key exists yet, and there is no data directory to keep a first one in. Set SKILLBOX_BOOTSTRAP_KEY."
    )]
    NoDataDir,
    #[error(
        "SKILLBOX_BOOTSTRAP_KEY was revoked, and no other service key is active. Set it to a new key."
    )]
    Revoked,
    #[error(
        "SKILLBOX_BOOTSTRAP_KEY is another key already, in tenant `{0}` and with fewer rights. Choose another."
    )]
    Taken(TenantId),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Ensures that a key exists; returns a key that was generated now, to be shown once.
///
/// The first key has every scope and the service flag: it belongs to the operator, who must be able
/// to create tenants.
pub(crate) async fn first_key(
    config: &Config,
    data: Option<&DataDir>,
    store: &Store,
    keyring: &Keyring,
) -> Result<Option<String>, BootstrapError> {
    let tenant = TenantId::try_from(TENANT).expect("a valid tenant name");
    store.ensure_tenant(&tenant).await?;
    if let Some(key) = &config.bootstrap_key {
        import(store, keyring, tenant, key).await?;
        return Ok(None);
    }
    if store.count_keys().await? > 0 {
        return Ok(None);
    }
    if !config.is_loopback() {
        return Err(BootstrapError::OpenWithoutKeys(config.bind));
    }
    let data = data.ok_or(BootstrapError::NoDataDir)?;
    let key = new_key();
    // The file before the row: if the process crashes between the two, a row without a readable
    // key would lock the operator out of a new installation.
    data.write_key(&key)?;
    store.insert_key(&operator_key(keyring, tenant, "first", &key)).await?;
    Ok(Some(key))
}

async fn import(
    store: &Store,
    keyring: &Keyring,
    tenant: TenantId,
    key: &str,
) -> Result<(), BootstrapError> {
    let new = operator_key(keyring, tenant, "bootstrap", key);
    let mut existing = store.find_key(&new.hash).await?;
    if existing.is_none() {
        match store.insert_key(&new).await {
            Ok(_) => return Ok(()),
            // Another replica that starts at the same time was faster.
            Err(StoreError::Conflict(_)) => existing = store.find_key(&new.hash).await?,
            Err(error) => return Err(error.into()),
        }
    }
    match existing {
        Some(existing) if existing.revoked_at.is_some() => accept_revoked(store).await,
        Some(existing) if !is_equivalent(&existing, &new) => {
            Err(BootstrapError::Taken(existing.tenant))
        }
        Some(_) => Ok(()),
        None => Err(StoreError::NotFound.into()),
    }
}

/// A revoked key never becomes valid again. It prevents the start only if no other key could
/// administer the server: an operator who replaced it by another service key should not have to
/// change the environment of every process before the next restart.
async fn accept_revoked(store: &Store) -> Result<(), BootstrapError> {
    if !store.has_active_service_key().await? {
        return Err(BootstrapError::Revoked);
    }
    tracing::warn!(
        "SKILLBOX_BOOTSTRAP_KEY was revoked and stays revoked; unset it, or set it to a new key"
    );
    Ok(())
}

/// Whether an existing key has the rights of the operator's key.
fn is_equivalent(existing: &ApiKey, new: &NewApiKey) -> bool {
    existing.tenant == new.tenant
        && new.scopes.iter().all(|scope| existing.scopes.contains(scope))
        && existing.service
        && existing.skills.is_none()
        && existing.expires_at.is_none()
}

fn operator_key(keyring: &Keyring, tenant: TenantId, name: &str, key: &str) -> NewApiKey {
    NewApiKey {
        tenant,
        name: name.into(),
        prefix: display_prefix(key),
        hash: keyring.hash(key),
        scopes: Scope::ALL.to_vec(),
        service: true,
        skills: None,
        expires_at: None,
    }
}
