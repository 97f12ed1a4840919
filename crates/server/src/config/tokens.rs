//! Which tokens of an identity provider are accepted beside our own keys.

use std::path::PathBuf;
use std::time::Duration;

use super::ConfigError;
use super::parse::{claim, duration, header_word, jwks_url, long_secret};
use super::reader::{SettingReader, invalid};

/// How to check a token. Not `Debug`: it can hold a secret.
#[derive(Clone)]
pub struct JwtSettings {
    pub key: JwtKey,
    pub issuer: String,
    pub audience: String,
    pub tenant_claim: String,
    pub scopes_claim: String,
    /// How far clocks may be apart.
    pub leeway: Duration,
}

/// What signatures are checked with. The kind alone decides the algorithm; a token has no say in
/// it.
#[derive(Clone)]
pub enum JwtKey {
    /// HS256.
    Secret(String),
    /// A PEM file: RS256 or ES256, by what is in it.
    PublicKey(PathBuf),
    /// A set of keys at a URL: RS256 or ES256, by each key.
    Jwks(String),
}

/// The most that clocks may be apart; more would keep expired tokens alive.
const MAX_LEEWAY: Duration = Duration::from_secs(300);

impl JwtSettings {
    /// `None` when no setting of them is given.
    pub(super) fn read(read: &SettingReader<'_>) -> Result<Option<JwtSettings>, ConfigError> {
        let Some(key) = key(read)? else {
            let stray = [
                "jwt_issuer", "jwt_audience", "jwt_tenant_claim", "jwt_scopes_claim", "jwt_leeway",
            ];
            return match stray.into_iter().find(|key| read.is_given(key)) {
                Some(key) => Err(invalid(
                    key,
                    "means nothing without SKILLBOX_JWT_SECRET, SKILLBOX_JWT_PUBLIC_KEY or SKILLBOX_JWT_JWKS_URL",
                )),
                None => Ok(None),
            };
        };
        let needed = |key: &str| {
            let value = read.optional(key, header_word)?;
            value.ok_or_else(|| {
                invalid(key, "must be given: tokens for another service must not open this server")
            })
        };
        let jwt = JwtSettings {
            key,
            issuer: needed("jwt_issuer")?,
            audience: needed("jwt_audience")?,
            tenant_claim: read.get("jwt_tenant_claim", claim)?,
            scopes_claim: read.get("jwt_scopes_claim", claim)?,
            leeway: read.get("jwt_leeway", duration)?,
        };
        match jwt.leeway > MAX_LEEWAY {
            true => Err(invalid("jwt_leeway", "is longer than 5m")),
            false => Ok(Some(jwt)),
        }
    }
}

fn key(read: &SettingReader<'_>) -> Result<Option<JwtKey>, ConfigError> {
    let secret = read.optional("jwt_secret", long_secret)?.map(JwtKey::Secret);
    let file =
        read.optional("jwt_public_key", |text| Ok(PathBuf::from(text)))?.map(JwtKey::PublicKey);
    let url = read.optional("jwt_jwks_url", jwks_url)?.map(JwtKey::Jwks);
    let mut given = [("jwt_secret", secret), ("jwt_public_key", file), ("jwt_jwks_url", url)]
        .into_iter()
        .filter_map(|(name, key)| Some((name, key?)));
    let first = given.next();
    match (given.next(), first) {
        (Some((name, _)), Some((other, _))) => Err(invalid(
            name,
            format!("cannot be given together with SKILLBOX_{}", other.to_uppercase()),
        )),
        (_, first) => Ok(first.map(|(_, key)| key)),
    }
}
