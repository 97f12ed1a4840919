//! Writes a gzip tar as a stream: the caller takes the compressed bytes as they are produced, so a
//! large archive is never in memory. Names are relative, times and owners fixed: the same files give
//! the same bytes.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use tar::{EntryType, Header};

const BLOCK: u64 = 512;

pub(super) struct GzipTar {
    gzip: GzEncoder<Vec<u8>>,
    /// Bytes that fill up the entry in progress to a whole block.
    padding: usize,
}

impl GzipTar {
    pub(super) fn new() -> GzipTar {
        GzipTar {
            gzip: GzBuilder::new().mtime(0).write(Vec::new(), Compression::fast()),
            padding: 0,
        }
    }

    /// Begins a file; exactly `size` bytes must follow.
    pub(super) fn start(&mut self, path: &str, size: u64) -> io::Result<()> {
        let mut header = header(EntryType::Regular, size);
        if header.set_path(path).is_err() {
            // A name that does not fit the header is written before it, as an entry of its own, as
            // GNU tar does.
            self.long_name(path)?;
            let short: String = path.chars().filter(char::is_ascii).take(99).collect();
            header.set_path(short.trim_matches('/'))?;
        }
        self.header(header)?;
        self.padding = padding(size);
        Ok(())
    }

    pub(super) fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.gzip.write_all(bytes)
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.gzip.write_all(&[0; BLOCK as usize][..self.padding])
    }

    /// The compressed bytes made since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.gzip.get_mut())
    }

    /// The last bytes of the archive.
    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        self.gzip.write_all(&[0; 2 * BLOCK as usize])?;
        self.gzip.finish()
    }

    fn long_name(&mut self, path: &str) -> io::Result<()> {
        let size = path.len() as u64 + 1;
        let mut header = header(EntryType::GNULongName, size);
        header.set_path("././@LongLink")?;
        self.header(header)?;
        self.gzip.write_all(path.as_bytes())?;
        self.gzip.write_all(&[0])?;
        self.gzip.write_all(&[0; BLOCK as usize][..padding(size)])
    }

    fn header(&mut self, mut header: Header) -> io::Result<()> {
        header.set_cksum();
        self.gzip.write_all(header.as_bytes())
    }
}

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn padding(size: u64) -> usize {
    (size.next_multiple_of(BLOCK) - size) as usize
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = GzipTar::new();
        let mut bytes = Vec::new();
        for (path, content) in files {
            tar.start(path, content.len() as u64).expect("memory");
            for chunk in content.chunks(100) {
                tar.chunk(chunk).expect("memory");
                bytes.extend(tar.take());
            }
            tar.end().expect("memory");
        }
        bytes.extend(tar.finish().expect("memory"));
        bytes
    }

    #[test]
    fn a_standard_reader_reads_the_same_files() {
        let long = format!("{}/é/{}.txt", "d".repeat(150), "n".repeat(200));
        let files: [(&str, &[u8]); 4] = [
            ("a.txt", b"hello"),
            ("empty", b""),
            (&long, &[7; 1300]),
            ("sub/exact.bin", &[1; 512]),
        ];
        let bytes = archive(&files);
        assert_eq!(bytes, archive(&files), "the same files give the same bytes");

        let mut read = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        for (entry, (path, content)) in read.entries().expect("archive").zip(files) {
            let mut entry = entry.expect("entry");
            assert_eq!(entry.path().expect("path").to_str(), Some(path));
            let mut found = Vec::new();
            entry.read_to_end(&mut found).expect("content");
            assert_eq!(found, content);
        }
    }
}
