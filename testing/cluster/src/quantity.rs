//! Amounts of resources as Kubernetes spells them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const SUFFIXES: [(&str, f64); 13] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
];

/// The amount as a number of units; `None` for what is no amount.
pub(crate) fn amount(quantity: &Quantity) -> Option<f64> {
    let text = quantity.0.trim();
    let (number, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))
        .unwrap_or((text, 1.0));
    number
        .parse::<f64>()
        .ok()
        .map(|number| number * factor)
        .filter(|amount| amount.is_finite() && *amount >= 0.0)
}

/// In whole units, rounded up as the API does.
pub(crate) fn units(quantity: &Quantity) -> Option<u64> {
    amount(quantity).map(|amount| amount.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read() {
        let table = [
            ("128Mi", 134_217_728.0),
            ("500m", 0.5),
            ("2", 2.0),
            ("1k", 1000.0),
            ("0.1", 0.1),
            ("1e3", 1000.0),
        ];
        for (text, expected) in table {
            assert_eq!(amount(&Quantity(text.to_owned())), Some(expected), "{text}");
        }
        for text in ["", "Mi", "-1", "x", "1 Gi1"] {
            assert_eq!(amount(&Quantity(text.to_owned())), None, "{text}");
        }
    }
}
