//! Enumerations that are stored, sent and read as one fixed word each.

/// A word that is none of those its kind knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not a {kind}")]
pub struct UnknownVariant {
    pub kind: &'static str,
    pub word: String,
}

/// Declares an enumeration whose spelling is written once, for SQL, serde, `Display` and `FromStr`.
macro_rules! string_enum {
    ($(#[$about:meta])* $name:ident, $kind:literal { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownVariant;

            fn from_str(word: &str) -> Result<$name, $crate::UnknownVariant> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err($crate::UnknownVariant { kind: $kind, word: word.to_owned() }),
                }
            }
        }

        impl From<$name> for $crate::sql::Arg<'_> {
            fn from(word: $name) -> Self {
                word.as_str().into()
            }
        }
    };
}

pub(crate) use string_enum;
