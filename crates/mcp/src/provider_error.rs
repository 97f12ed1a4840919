//! Why a provider of skills could not do what a caller requested.

/// Every message goes to the caller.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("There is no skill `{0}`. Call `list_skills` for the available names.")]
    SkillNotFound(String),
    #[error("The skill `{skill}` has no file `{path}`. Call `load_skill` for the list of files.")]
    FileNotFound { skill: String, path: String },
    #[error(
        "There is no file `{name}` of a run `{execution}`. Files of runs are kept for a limited time."
    )]
    ArtifactNotFound { execution: String, name: String },
    #[error("The file is {size} bytes long, and at most {max_bytes} bytes can be read this way.")]
    TooLarge { size: u64, max_bytes: usize },
    #[error("{0}")]
    Forbidden(String),
    #[error("{0}")]
    InvalidRequest(String),
    /// A failure of the provider; the details are in its log.
    #[error("{0}")]
    Internal(String),
}

impl ProviderError {
    /// Enough for every message with names of a usual length.
    const MAX_MESSAGE_CHARS: usize = 2000;

    /// The message, cut: the names in it come from the caller and may have any length.
    pub(crate) fn client_message(&self) -> String {
        let text = self.to_string();
        match text.char_indices().nth(Self::MAX_MESSAGE_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}
