//! Files on their way into a package: named, measured and counted, not yet unpacked.
//!
//! All three readers hand their entries to one [`FileCollector`], so that every rule about names and sizes
//! is kept in one place.

use std::path::PathBuf;

use crate::archive::PackedData;
use crate::canonical::SkillFile;
use crate::path::{self, PathSet};
use crate::{
    Hazard, OpenDirectory, PackageLimits, SkillError, directory, frontmatter, manifest_sources,
    yaml,
};

/// Less than this is simply unpacked: that it might be refused then costs little.
const PRECHECK_MIN_BYTES: u64 = 16 << 20;

/// One file whose bytes still have to be fetched.
pub(crate) struct SourceFile<'a> {
    pub path: String,
    /// Unknown where the transport carries no modes; a shebang decides then.
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

/// What a reader has seen so far.
pub(crate) struct FileCollector<'a> {
    pub limits: &'a PackageLimits,
    pub sources: Vec<SourceFile<'a>>,
    /// How many files were left out because nobody meant to ship them.
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

    /// Takes note of a directory. It is not kept: the canonical form has files only.
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
            // It is dropped, but what no program could unpack is refused wherever it stands.
            return content.verify(path);
        }
        let path = path.to_owned();
        self.sources.push(SourceFile { path, executable, size, content });
        Ok(())
    }

    /// Takes away the wrapper directory, if everything lies in one, and tells its name.
    pub(crate) fn strip_wrapper(&mut self) -> Option<String> {
        let paths = self.sources.iter().map(|source| source.path.as_str());
        let wrapper = path::find_wrapper(paths)?.to_owned();
        for source in &mut self.sources {
            source.path.drain(..=wrapper.len());
        }
        Some(wrapper)
    }

    /// Tries large content out before room is made for all of it, so that what is refused never
    /// costs that room. What it gives back is all that the skill says about itself, to be judged
    /// before the rest; nothing, where the rest is to_u32.
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
            .map(|(source, most)| source.manifest_file(most))
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
    /// The file as it will be, as far as a document of at most this length is judged by it.
    fn manifest_file(&self, most: u64) -> Result<SkillFile, SkillError> {
        // Its length alone speaks against it, so nothing but the length is needed.
        let content = if self.size > most {
            FileContent::Bytes(vec![b' '; most as usize + 1])
        } else {
            self.content.clone()
        };
        let mut bytes = Vec::new();
        content.append_to(&mut bytes, &self.path)?;
        Ok(SkillFile { path: self.path.clone(), bytes: bytes.into(), executable: false })
    }
}

impl FileContent<'_> {
    /// Finds what is wrong with packed content without keeping what comes out of it.
    fn verify(&self, path: &str) -> Result<(), SkillError> {
        match self {
            Self::Packed(packed) => packed.verify(path),
            Self::Bytes(_) | Self::OnDisk { .. } => Ok(()),
        }
    }

    /// Appends exactly the announced bytes to `out` and returns their CRC-32.
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
