//! Collects the files of a package: checks their names and sizes, before anything is unpacked.
//!
//! All three readers add their entries to one [`FileCollector`], so that every rule about names and
//! sizes is in one place.

use std::path::PathBuf;

use crate::archive::PackedData;
use crate::canonical::SkillFile;
use crate::path::{self, PathSet};
use crate::{
    Hazard, OpenDirectory, PackageLimits, SkillError, directory, frontmatter, manifest_sources,
    yaml,
};

/// Smaller packages are unpacked without a precheck: rejecting them afterwards costs little memory.
const PRECHECK_MIN_BYTES: u64 = 16 << 20;

/// One file whose content is still to be read or unpacked.
pub(crate) struct SourceFile<'a> {
    pub path: String,
    /// `None` if the transport carries no modes; a shebang decides then.
    pub executable: Option<bool>,
    pub size: u64,
    pub content: FileContent<'a>,
}

#[derive(Clone)]
pub(crate) enum FileContent<'a> {
    Bytes(Vec<u8>),
    Packed(PackedData<'a>),
    OnDisk { root: OpenDirectory, relative: PathBuf, size: u64 },
}

/// The files that a reader has added so far.
pub(crate) struct FileCollector<'a> {
    pub limits: &'a PackageLimits,
    pub sources: Vec<SourceFile<'a>>,
    /// The number of files of desktop systems that were left out.
    pub dropped_junk_files: usize,
    paths: PathSet,
    entries: usize,
    total_bytes: u64,
}

impl<'a> FileCollector<'a> {
    pub(crate) fn new(limits: &'a PackageLimits) -> Self {
        Self {
            limits,
            sources: Vec::new(),
            dropped_junk_files: 0,
            paths: PathSet::default(),
            entries: 0,
            total_bytes: 0,
        }
    }

    /// Checks the name of a directory. It is not kept: the canonical form has files only.
    pub(crate) fn add_directory(&mut self, name: &str) -> Result<(), SkillError> {
        self.count_entry()?;
        match path::normalize(name, self.limits)? {
            "" => Ok(()),
            path => self.paths.insert(path, true),
        }
    }

    pub(crate) fn add_file(
        &mut self,
        name: &str,
        executable: Option<bool>,
        size: u64,
        content: FileContent<'a>,
    ) -> Result<(), SkillError> {
        self.count_entry()?;
        let path = path::normalize(name, self.limits)?;
        if path.is_empty() || name.ends_with('/') {
            return Err(Hazard::UnsafePath.in_entry(name));
        }
        self.paths.insert(path, false)?;
        self.total_bytes = self.total_bytes.saturating_add(size);
        if self.total_bytes > self.limits.unpacked_bytes {
            let limit_bytes = self.limits.unpacked_bytes;
            return Err(SkillError::TooLarge { limit_bytes });
        }
        if path::is_junk(path) {
            self.dropped_junk_files += 1;
            // Dropped, but damaged data is rejected wherever it is: other programs would fail on
            // it.
            return content.verify(path);
        }
        let path = path.to_owned();
        self.sources.push(SourceFile { path, executable, size, content });
        Ok(())
    }

    /// Removes the wrapper directory from all paths, if there is one, and returns its name.
    pub(crate) fn strip_wrapper(&mut self) -> Option<String> {
        let paths = self.sources.iter().map(|source| source.path.as_str());
        let wrapper = path::find_wrapper(paths)?.to_owned();
        for source in &mut self.sources {
            source.path.drain(..=wrapper.len());
        }
        Some(wrapper)
    }

    /// Checks large content before memory is allocated for all of it, so that a rejected package
    /// never costs that memory. Returns the files that the manifest is read from, to be validated
    /// before the rest is unpacked; `None` if the package is small.
    pub(crate) fn precheck(&self) -> Result<Option<Vec<SkillFile>>, SkillError> {
        for source in self.sources.iter().filter(|source| path::is_skill_file(&source.path)) {
            frontmatter::check_size(&source.path, source.size, self.limits)?;
        }
        for source in self.sources.iter().filter(|source| source.path == path::SIDECAR) {
            yaml::check_size(source.size).map_err(|error| error.in_file(&source.path, 0))?;
        }
        if self.total_bytes <= PRECHECK_MIN_BYTES {
            return Ok(None);
        }
        for SourceFile { path, content, .. } in &self.sources {
            content.verify(path)?;
        }
        let documents = self.sources.iter().filter_map(|source| {
            Some((source, manifest_sources::max_bytes(&source.path, self.limits)?))
        });
        documents
            .map(|(source, max)| source.manifest_file(max))
            .collect::<Result<Vec<_>, _>>()
            .map(Some)
    }

    fn count_entry(&mut self) -> Result<(), SkillError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(Hazard::TooManyEntries.in_archive());
        }
        Ok(())
    }
}

impl SourceFile<'_> {
    /// The unpacked manifest file. One above its maximum size is replaced by blanks of one byte
    /// more than allowed.
    fn manifest_file(&self, max: u64) -> Result<SkillFile, SkillError> {
        // It is rejected for its length alone, so its content is not needed.
        let content = if self.size > max {
            FileContent::Bytes(vec![b' '; max as usize + 1])
        } else {
            self.content.clone()
        };
        let mut bytes = Vec::new();
        content.append_to(&mut bytes, &self.path)?;
        Ok(SkillFile { path: self.path.clone(), bytes: bytes.into(), executable: false })
    }
}

impl FileContent<'_> {
    /// Checks packed content without keeping the unpacked bytes.
    fn verify(&self, path: &str) -> Result<(), SkillError> {
        match self {
            Self::Packed(packed) => packed.verify(path),
            Self::Bytes(_) | Self::OnDisk { .. } => Ok(()),
        }
    }

    /// Appends exactly the declared number of bytes to `out` and returns their CRC-32.
    pub(crate) fn append_to(self, out: &mut Vec<u8>, path: &str) -> Result<u32, SkillError> {
        let start = out.len();
        match self {
            Self::Packed(packed) => return packed.unpack_into(out, path),
            Self::Bytes(bytes) => out.extend_from_slice(&bytes),
            Self::OnDisk { root, relative, size } => {
                directory::append_file(&root, &relative, size, out)?
            }
        }
        let mut crc = flate2::Crc::new();
        crc.update(&out[start..]);
        Ok(crc.sum())
    }
}
