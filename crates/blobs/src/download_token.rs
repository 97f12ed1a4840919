//! Download tokens: each lets its bearer download one blob until it expires, with no other
//! credential.
//!
//! A token is the base64url encoding of an HMAC-SHA256 and the claims that it covers. The claims
//! are parsed only after the HMAC was verified, in constant time, so the parser never sees input
//! that an attacker chose.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::BlobKey;

/// Domain separation from other MACs that are made with the same secret.
const PURPOSE: &[u8] = b"skillbox blob token 1\0";

const MAC_BYTES: usize = 32;

/// Signs and verifies download tokens.
#[derive(Clone)]
pub struct DownloadTokenSigner {
    mac: Hmac<Sha256>,
}

/// The claims of a download token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadClaims {
    pub key: BlobKey,
    /// The file name for the bearer's browser.
    pub filename: String,
    pub content_type: String,
    /// Seconds since 1970; from this second on the token is expired.
    pub expires_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DownloadTokenError {
    #[error("the link has expired; read the execution again for a new one")]
    Expired,
    #[error("the link was not made by this server")]
    Tampered,
    #[error("the link is malformed")]
    Malformed,
}

impl DownloadTokenSigner {
    pub fn new(secret: [u8; 32]) -> DownloadTokenSigner {
        let mut mac = Hmac::new_from_slice(&secret).expect("HMAC takes a key of any length");
        mac.update(PURPOSE);
        DownloadTokenSigner { mac }
    }

    /// A token of URL-safe characters.
    pub fn sign(&self, claims: &DownloadClaims) -> String {
        let body = claims.encode();
        let mac = self.mac.clone().chain_update(&body).finalize();
        let mut token = mac.into_bytes().to_vec();
        token.extend_from_slice(&body);
        BASE64URL_NOPAD.encode(&token)
    }

    /// The claims of a token that was signed with this secret and has not expired at `now`, in
    /// seconds since 1970.
    pub fn verify(&self, token: &str, now: i64) -> Result<DownloadClaims, DownloadTokenError> {
        let token =
            BASE64URL_NOPAD.decode(token.as_bytes()).map_err(|_| DownloadTokenError::Malformed)?;
        let (mac, body) = token.split_at_checked(MAC_BYTES).ok_or(DownloadTokenError::Malformed)?;
        self.mac
            .clone()
            .chain_update(body)
            .verify_slice(mac)
            .map_err(|_| DownloadTokenError::Tampered)?;
        let claims = DownloadClaims::decode(body).ok_or(DownloadTokenError::Malformed)?;
        if now >= claims.expires_at {
            return Err(DownloadTokenError::Expired);
        }
        Ok(claims)
    }
}

impl fmt::Debug for DownloadTokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl DownloadClaims {
    /// The expiry, then each text after its length. The lengths make the encoding unambiguous: a
    /// token cannot be read as one with other claims.
    fn encode(&self) -> Vec<u8> {
        let mut body = self.expires_at.to_be_bytes().to_vec();
        for text in [self.key.as_str(), &self.filename, &self.content_type] {
            body.extend_from_slice(&(text.len() as u64).to_be_bytes());
            body.extend_from_slice(text.as_bytes());
        }
        body
    }

    fn decode(body: &[u8]) -> Option<DownloadClaims> {
        let (expires_at, mut rest) = body.split_first_chunk()?;
        let mut text = || {
            let (length, tail) = rest.split_first_chunk()?;
            let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
            let (text, tail) = tail.split_at_checked(length)?;
            rest = tail;
            std::str::from_utf8(text).ok()
        };
        let claims = DownloadClaims {
            key: BlobKey::parse(text()?).ok()?,
            filename: text()?.to_owned(),
            content_type: text()?.to_owned(),
            expires_at: i64::from_be_bytes(*expires_at),
        };
        rest.is_empty().then_some(claims)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims(tenant: &str) -> DownloadClaims {
        DownloadClaims {
            key: BlobKey::artifact(tenant, 7, "report.pdf"),
            filename: "report.pdf".into(),
            content_type: "application/pdf".into(),
            expires_at: 1000,
        }
    }

    #[test]
    fn token_returns_the_signed_claims() {
        let signer = DownloadTokenSigner::new([1; 32]);
        let token = signer.sign(&claims("acme"));
        assert_eq!(signer.verify(&token, 999), Ok(claims("acme")));
    }

    #[test]
    fn token_expires_on_the_second() {
        let signer = DownloadTokenSigner::new([1; 32]);
        let token = signer.sign(&claims("acme"));
        assert_eq!(signer.verify(&token, 1000), Err(DownloadTokenError::Expired));
        assert_eq!(signer.verify(&token, i64::MAX), Err(DownloadTokenError::Expired));
    }

    #[test]
    fn token_of_another_secret_is_rejected() {
        let token = DownloadTokenSigner::new([2; 32]).sign(&claims("acme"));
        assert_eq!(
            DownloadTokenSigner::new([1; 32]).verify(&token, 0),
            Err(DownloadTokenError::Tampered)
        );
    }

    #[test]
    fn changed_tenant_or_expiry_is_rejected() {
        let signer = DownloadTokenSigner::new([1; 32]);
        let token =
            BASE64URL_NOPAD.decode(signer.sign(&claims("acme")).as_bytes()).expect("our own token");
        let later = DownloadClaims { expires_at: 2000, ..claims("acme") };
        for forged in [claims("evil"), later] {
            let mut body = token[..MAC_BYTES].to_vec();
            body.extend_from_slice(&forged.encode());
            let forged = BASE64URL_NOPAD.encode(&body);
            assert_eq!(signer.verify(&forged, 0), Err(DownloadTokenError::Tampered));
        }
    }

    #[test]
    fn different_claims_have_different_encodings() {
        let one =
            DownloadClaims { filename: "ab".into(), content_type: "c".into(), ..claims("acme") };
        let two =
            DownloadClaims { filename: "a".into(), content_type: "bc".into(), ..claims("acme") };
        assert_ne!(one.encode(), two.encode());
    }

    #[test]
    fn random_text_is_malformed() {
        let signer = DownloadTokenSigner::new([1; 32]);
        for text in ["", "a", "not base64!", "AAAA", "===="] {
            assert_eq!(signer.verify(text, 0), Err(DownloadTokenError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn debug_output_does_not_contain_the_secret() {
        assert_eq!(format!("{:?}", DownloadTokenSigner::new([7; 32])), "Signer");
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_detected(bit in 0usize..8 * 100) {
            let signer = DownloadTokenSigner::new([1; 32]);
            let mut token = BASE64URL_NOPAD
                .decode(signer.sign(&claims("acme")).as_bytes())
                .expect("our own token");
            token[bit / 8 % 100] ^= 1 << (bit % 8);
            let changed = BASE64URL_NOPAD.encode(&token);
            prop_assert_eq!(signer.verify(&changed, 0), Err(DownloadTokenError::Tampered));
        }

        #[test]
        fn any_changed_character_is_detected(at in 0usize..100, new in "[A-Za-z0-9_=.-]") {
            let signer = DownloadTokenSigner::new([1; 32]);
            let token = signer.sign(&claims("acme"));
            let at = at % token.len();
            let mut changed = token.clone();
            changed.replace_range(at..at + 1, &new);
            prop_assume!(changed != token);
            prop_assert!(signer.verify(&changed, 0).is_err());
        }

        #[test]
        fn verifying_any_text_never_panics(text in any::<String>()) {
            prop_assert!(DownloadTokenSigner::new([1; 32]).verify(&text, 0).is_err());
        }
    }
}
