//! Size limits of a skill.

/// The limits of the readers. The defaults are documented in docs/skill-format.md.
#[derive(Debug, Clone)]
pub struct PackageLimits {
    /// Entries of an archive, directories included.
    pub entries: usize,
    /// Sum of all file contents, counted while they are unpacked.
    pub unpacked_bytes: u64,
    /// Unpacked bytes per packed byte, checked above `ratio_from_bytes`.
    pub ratio: u64,
    /// Content up to this size may have any ratio: a megabyte of zeros is harmless.
    pub ratio_from_bytes: u64,
    /// Length of one path.
    pub path_bytes: usize,
    /// Directories above one file.
    pub depth: usize,
    /// Size of `SKILL.md`, which is stored in the database and sent to models.
    pub skill_file_bytes: u64,
}

impl Default for PackageLimits {
    fn default() -> Self {
        Self {
            entries: 2_000,
            unpacked_bytes: 100 << 20,
            ratio: 100,
            ratio_from_bytes: 1 << 20,
            path_bytes: 512,
            depth: 32,
            skill_file_bytes: 1 << 20,
        }
    }
}
