//! Enumerations whose variants are stored and sent as fixed strings.

/// A string that is no variant of the expected enumeration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not a {expected}")]
pub struct UnknownVariant {
    /// What the string should have been, such as `status`.
    pub expected: &'static str,
    pub value: String,
}

/// Declares an enumeration. Each string is written once and serves SQL, serde, `Display` and
/// `FromStr`.
macro_rules! string_enum {
    ($(#[$about:meta])* $name:ident, $expected:literal { $($(#[$doc:meta])* $variant:ident = $string:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $string)] $variant),+ }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $string),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownVariant;

            fn from_str(value: &str) -> Result<$name, $crate::UnknownVariant> {
                match value {
                    $($string => Ok($name::$variant),)+
                    _ => Err($crate::UnknownVariant { expected: $expected, value: value.to_owned() }),
                }
            }
        }

        impl From<$name> for $crate::sql::Arg<'_> {
            fn from(variant: $name) -> Self {
                variant.as_str().into()
            }
        }
    };
}

pub(crate) use string_enum;
