//! A sealed document: a text and a signature over exactly that text, together in one line of JSON.
//!
//! The text is kept as it was signed, so no canonical JSON is needed, and minisign itself can
//! verify it. A sealed document has exactly one encoding; any other byte sequence is rejected.

use serde::{Deserialize, Serialize};

use super::{PublicKey, SecretKey, Signature, SignatureError, VerifiedSignature};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedDocument {
    #[serde(rename = "type")]
    kind: String,
    payload: String,
    signature: String,
}

/// The content of a sealed document, and its verified signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedDocument {
    pub payload: String,
    pub verified: VerifiedSignature,
    /// The text of the signature, for verification by other tools.
    pub signature: String,
}

/// Seals a payload of this kind. Deterministic.
pub fn seal(key: &SecretKey, kind: &str, payload: String, trusted_comment: &str) -> String {
    let signature = key.sign(payload.as_bytes(), kind, trusted_comment).to_string();
    let sealed = SealedDocument { kind: kind.to_owned(), payload, signature };
    serde_json::to_string(&sealed).expect("three strings are JSON")
}

/// Opens a document of this kind that was sealed with one of the keys. A line break at the end is
/// ignored.
pub fn open(
    document: &str,
    kind: &str,
    keys: &[PublicKey],
) -> Result<OpenedDocument, SignatureError> {
    let malformed = |why| SignatureError::Malformed { what: "document", why };
    let document = document.strip_suffix('\n').unwrap_or(document);
    let sealed: SealedDocument =
        serde_json::from_str(document).map_err(|_| malformed("it is not a sealed document"))?;
    // Other encodings of the same JSON are rejected, so that a document can be compared by its
    // bytes.
    if serde_json::to_string(&sealed).ok().as_deref() != Some(document) {
        return Err(malformed("its encoding was changed after it was sealed"));
    }
    let signature: Signature = sealed.signature.parse()?;
    // The first line of a signature is not signed, so it must be exactly the one that `seal`
    // writes.
    if sealed.kind != kind
        || signature.untrusted_comment() != kind
        || signature.to_string() != sealed.signature
    {
        return Err(malformed("it is of another kind"));
    }
    let key = keys.iter().find(|key| key.id() == signature.key_id());
    let key = key.ok_or(SignatureError::OtherKey { made_with: signature.key_id() })?;
    let verified = signature.verify(key, sealed.payload.as_bytes())?;
    Ok(OpenedDocument { payload: sealed.payload, verified, signature: sealed.signature })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "test document 1";

    fn sealed() -> (String, PublicKey) {
        let key = SecretKey::from_seed([7; 32]).expect("a key");
        let payload = r#"{"name":"a \"quoted\" näme","n":1.50}"#.to_owned();
        (seal(&key, KIND, payload, "timestamp:1\tof:this"), key.public())
    }

    #[test]
    fn opening_returns_the_sealed_payload() {
        let (document, key) = sealed();
        for document in [document.clone(), format!("{document}\n")] {
            let opened = open(&document, KIND, std::slice::from_ref(&key)).expect("it is whole");
            assert_eq!(opened.payload, r#"{"name":"a \"quoted\" näme","n":1.50}"#);
            assert_eq!((opened.verified.key_id, opened.verified.signed_at), (key.id(), Some(1)));
        }
        assert!(matches!(open(&document, KIND, &[]), Err(SignatureError::OtherKey { .. })));
        assert!(open(&document, "another kind", &[key]).is_err());
    }

    #[test]
    fn any_changed_byte_is_rejected() {
        let (document, key) = sealed();
        let keys = [key];
        let mut tried = 0;
        for at in 0..document.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = document.clone().into_bytes();
                if std::mem::replace(&mut bytes[at], byte) == byte {
                    continue;
                }
                tried += 1;
                // Invalid UTF-8 cannot be a document.
                let Ok(changed) = String::from_utf8(bytes) else { continue };
                assert!(open(&changed, KIND, &keys).is_err(), "byte {at} as {byte}: {changed}");
            }
        }
        assert_eq!(tried, document.len() * 255);
    }

    #[test]
    fn additions_and_truncations_are_rejected() {
        let (document, key) = sealed();
        let keys = [key];
        for changed in [
            format!(" {document}"),
            format!("{document} "),
            format!("{document}\n\n"),
            document.replacen(',', ", ", 1),
            document.replacen('{', r#"{"more":1,"#, 1),
            document.replacen("\\n\"", "\"", 1),
            document.replacen("näme", "n\\u00e4me", 1),
        ] {
            assert_ne!(changed, document);
            assert!(open(&changed, KIND, &keys).is_err(), "{changed}");
        }
        for end in 0..document.len() {
            assert!(
                document.get(..end).is_none_or(|cut| open(cut, KIND, &keys).is_err()),
                "cut at {end}"
            );
        }
    }
}
