//! Files on their way into a package: named, measured and counted, not yet unpacked.
//!
//! All three readers hand their entries to one [`Intake`], so that every rule about names and sizes
//! is kept in one place.

use std::path::PathBuf;

use crate::archive::Packed;
use crate::canonical::SkillFile;
use crate::path::{self, Names};
use crate::{Hazard, Limits, SkillError, Tree, dialect, directory, frontmatter, yaml};

/// Less than this is simply unpacked: that it might be refused then costs little.
const REHEARSED_FROM_BYTES: u64 = 16 << 20;

/// One file whose bytes still have to be fetched.
pub(crate) struct Source<'a> {
    pub path: String,
    /// Unknown where the transport carries no modes; a shebang decides then.
    pub executable: Option<bool>,
    pub size: u64,
    pub content: Content<'a>,
}

#[derive(Clone)]
pub(crate) enum Content<'a> {
    Bytes(Vec<u8>),
    Packed(Packed<'a>),
    OnDisk { root: Tree, relative: PathBuf, size: u64 },
}

/// What a reader has seen so far.
pub(crate) struct Intake<'a> {
    pub limits: &'a Limits,
    pub sources: Vec<Source<'a>>,
    /// How many files were left out because nobody meant to ship them.
    pub junk: usize,
    names: Names,
    entries: usize,
    total_bytes: u64,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            sources: Vec::new(),
            junk: 0,
            names: Names::default(),
            entries: 0,
            total_bytes: 0,
        }
    }

    /// Takes note of a directory. It is not kept: the canonical form has files only.
    pub(crate) fn directory(&mut self, name: &str) -> Result<(), SkillError> {
        self.count_entry()?;
        match path::check(name, self.limits)? {
            "" => Ok(()),
            path => self.names.add(path, true),
        }
    }

    pub(crate) fn file(
        &mut self,
        name: &str,
        executable: Option<bool>,
        size: u64,
        content: Content<'a>,
    ) -> Result<(), SkillError> {
        self.count_entry()?;
        let path = path::check(name, self.limits)?;
        if path.is_empty() || name.ends_with('/') {
            return Err(Hazard::UnsafePath.of(name));
        }
        self.names.add(path, false)?;
        self.total_bytes = self.total_bytes.saturating_add(size);
        if self.total_bytes > self.limits.unpacked_bytes {
            let limit_bytes = self.limits.unpacked_bytes;
            return Err(SkillError::TooLarge { limit_bytes });
        }
        if path::is_junk(path) {
            self.junk += 1;
            // It is dropped, but what no program could unpack is refused wherever it stands.
            return content.check(path);
        }
        let path = path.to_owned();
        self.sources.push(Source { path, executable, size, content });
        Ok(())
    }

    /// Takes away the wrapper directory, if everything lies in one, and tells its name.
    pub(crate) fn unwrap(&mut self) -> Option<String> {
        let paths = self.sources.iter().map(|source| source.path.as_str());
        let wrapper = path::wrapper(paths)?.to_owned();
        for source in &mut self.sources {
            source.path.drain(..=wrapper.len());
        }
        Some(wrapper)
    }

    /// Tries large content out before room is made for all of it, so that what is refused never
    /// costs that room. What it gives back is all that the skill says about itself, to be judged
    /// before the rest; nothing, where the rest is small.
    pub(crate) fn rehearse(&self) -> Result<Option<Vec<SkillFile>>, SkillError> {
        for source in self.sources.iter().filter(|source| path::is_skill_file(&source.path)) {
            frontmatter::check_len(&source.path, source.size, self.limits)?;
        }
        for source in self.sources.iter().filter(|source| source.path == path::SIDECAR) {
            yaml::check_len(source.size).map_err(|error| error.in_file(&source.path, 0))?;
        }
        if self.total_bytes <= REHEARSED_FROM_BYTES {
            return Ok(None);
        }
        for Source { path, content, .. } in &self.sources {
            content.check(path)?;
        }
        let documents = self
            .sources
            .iter()
            .filter_map(|source| Some((source, dialect::most_bytes(&source.path, self.limits)?)));
        documents
            .map(|(source, most)| source.rehearsed(most))
            .collect::<Result<Vec<_>, _>>()
            .map(Some)
    }

    fn count_entry(&mut self) -> Result<(), SkillError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(Hazard::TooManyEntries.anywhere());
        }
        Ok(())
    }
}

impl Source<'_> {
    /// The file as it will be, as far as a document of at most this length is judged by it.
    fn rehearsed(&self, most: u64) -> Result<SkillFile, SkillError> {
        // Its length alone speaks against it, so nothing but the length is needed.
        let content = if self.size > most {
            Content::Bytes(vec![b' '; most as usize + 1])
        } else {
            self.content.clone()
        };
        let mut bytes = Vec::new();
        content.append_to(&mut bytes, &self.path)?;
        Ok(SkillFile { path: self.path.clone(), bytes: bytes.into(), executable: false })
    }
}

impl Content<'_> {
    /// Finds what is wrong with packed content without keeping what comes out of it.
    fn check(&self, path: &str) -> Result<(), SkillError> {
        match self {
            Self::Packed(packed) => packed.check(path),
            Self::Bytes(_) | Self::OnDisk { .. } => Ok(()),
        }
    }

    /// Appends exactly the announced bytes to `out` and returns their CRC-32.
    pub(crate) fn append_to(self, out: &mut Vec<u8>, path: &str) -> Result<u32, SkillError> {
        let start = out.len();
        match self {
            Self::Packed(packed) => return packed.append_to(out, path),
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
