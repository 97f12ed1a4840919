//! The code that one language needs and others do not. What is data about a language is in the
//! crate `language`; here is one file per language with the functions of [`LanguageCode`].

mod bash;
mod description;
mod literal;
mod node;
mod options;
mod python;

use language::Language;

pub(crate) use description::describe;
pub(crate) use options::split_options;

struct LanguageCode {
    /// How many words, of the first and the one after it, are an interpreter option that a skill
    /// may set; 0 if the first is none.
    option_words: fn(&str, Option<&str>) -> usize,
    /// The description in the script's own code. Without one the leading comment is used.
    description: fn(&str) -> Option<String>,
}

const fn code_of(language: Language) -> LanguageCode {
    match language {
        Language::Python => python::CODE,
        Language::Node => node::CODE,
        Language::Bash => bash::CODE,
    }
}
