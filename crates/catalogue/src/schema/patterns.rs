//! What the patterns of a schema compile to. A few characters can stand for an automaton of
//! gigabytes (`\p{L}{9999}`), so each is compiled here first, with whatever is left of one limit
//! for all of them.

use std::collections::BTreeMap;

use regex_automata::nfa::thompson::{Compiler, Config, NFA};

/// Different patterns of one schema.
const MAX_PATTERNS: usize = 100;
const MAX_PATTERN_BYTES: usize = 1000;
const MAX_PATTERNS_BYTES: usize = 20_000;
/// The automata of all patterns of one schema together.
pub(super) const MAX_COMPILED_BYTES: usize = 4 << 20;
/// What one pattern may keep of the automaton that it works out while it matches.
pub(super) const DFA_CACHE_BYTES: usize = 256 << 10;
/// A compiled pattern holds its automaton forwards and backwards, and scratch space of the same
/// size for each.
const AUTOMATA: u64 = 4;

/// The cost of a schema's patterns.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patterns {
    count: u64,
    states: u64,
    compiled_bytes: u64,
}

impl Patterns {
    /// `patterns` has each pattern with the number of times it stands in the schema.
    pub(super) fn measure(patterns: &BTreeMap<&str, u64>) -> Result<Patterns, String> {
        refuse_long(patterns)?;
        let mut measured = Patterns::default();
        for (pattern, times) in patterns {
            let left = MAX_COMPILED_BYTES as u64 - measured.compiled_bytes;
            // What is no pattern at all is refused with its reason when the schema is built.
            let Ok(translated) = jsonschema_regex::to_rust_regex(pattern) else { continue };
            let Some(automaton) = compile(&translated, left)? else { continue };
            measured.count += 1;
            measured.states += automaton.states().len() as u64 * times;
            measured.compiled_bytes += (automaton.memory_usage() as u64).min(left);
        }
        Ok(measured)
    }

    /// How many states a byte of text may be compared with, over all the places where a pattern
    /// stands.
    pub(super) fn states(&self) -> u64 {
        self.states
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.compiled_bytes * AUTOMATA + self.count * 2 * DFA_CACHE_BYTES as u64
    }
}

fn refuse_long(patterns: &BTreeMap<&str, u64>) -> Result<(), String> {
    if patterns.len() > MAX_PATTERNS {
        return Err(format!(
            "has {} different patterns and may have {MAX_PATTERNS}",
            patterns.len()
        ));
    }
    if let Some(long) = patterns.keys().find(|pattern| pattern.len() > MAX_PATTERN_BYTES) {
        return Err(format!(
            "has a pattern of {} bytes and may have patterns of {MAX_PATTERN_BYTES}",
            long.len()
        ));
    }
    let total: usize = patterns.keys().map(|pattern| pattern.len()).sum();
    match total > MAX_PATTERNS_BYTES {
        true => {
            Err(format!("has patterns of {total} bytes together and may have {MAX_PATTERNS_BYTES}"))
        }
        false => Ok(()),
    }
}

/// None for what is no pattern.
fn compile(pattern: &str, most_bytes: u64) -> Result<Option<NFA>, String> {
    let limit = usize::try_from(most_bytes).unwrap_or(usize::MAX);
    match Compiler::new().configure(Config::new().nfa_size_limit(Some(limit))).build(pattern) {
        Ok(automaton) => Ok(Some(automaton)),
        Err(error) if error.size_limit().is_some() => Err(format!(
            "has patterns that compile to more than {MAX_COMPILED_BYTES} bytes; use fewer or smaller repetitions and \
             character classes"
        )),
        Err(_) => Ok(None),
    }
}
