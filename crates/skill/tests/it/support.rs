//! A zip writer that writes whatever it is told, however wrong, and small skills to put into it.

use skill::{Package, PackageLimits, SkillError};

pub(crate) const SKILL_MD: &str = "---\nname: demo\ndescription: A demonstration.\n---\n# Demo\n";
pub(crate) const MAIN_PY: &str = "print('hello')\n";

/// One entry, with every header field open to falsification.
#[derive(Clone)]
pub(crate) struct Entry {
    pub local: Header,
    pub central: Header,
    /// The packed bytes.
    pub data: Vec<u8>,
    /// Written after the data.
    pub after: Vec<u8>,
    pub made_by: u16,
    pub mode: u32,
    /// The attributes of DOS, which share a field with the mode.
    pub dos: u32,
    pub comment: Vec<u8>,
    /// Where the central header points, when not at the local one.
    pub offset: Option<u32>,
}

#[derive(Clone)]
pub(crate) struct Header {
    pub version: u16,
    pub name: Vec<u8>,
    pub flags: u16,
    pub method: u16,
    pub time: u32,
    pub crc: u32,
    pub packed_len: u32,
    pub size: u32,
    pub extra: Vec<u8>,
}

pub(crate) const STORED: u16 = 0;
pub(crate) const DEFLATED: u16 = 8;

pub(crate) fn stored(name: &str, content: &[u8]) -> Entry {
    entry(name.as_bytes(), content, STORED, content.to_vec())
}

pub(crate) fn deflated(name: &str, content: &[u8]) -> Entry {
    entry(name.as_bytes(), content, DEFLATED, deflate(content))
}

pub(crate) fn entry(name: &[u8], content: &[u8], method: u16, data: Vec<u8>) -> Entry {
    let header = Header {
        version: 20,
        name: name.to_vec(),
        flags: if name.is_ascii() { 0 } else { 1 << 11 },
        method,
        time: 0x5a21_7c00,
        crc: crc(content),
        packed_len: data.len() as u32,
        size: content.len() as u32,
        extra: Vec::new(),
    };
    Entry {
        local: header.clone(),
        central: header,
        data,
        after: Vec::new(),
        made_by: 3 << 8 | 30,
        mode: 0o100_644,
        dos: 0,
        comment: Vec::new(),
        offset: None,
    }
}

impl Entry {
    pub(crate) fn both(mut self, change: impl Fn(&mut Header)) -> Self {
        change(&mut self.local);
        change(&mut self.central);
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Sizes after the data, as streaming packers write them.
    pub(crate) fn streamed(self, signature: bool) -> Self {
        self.both(|header| header.flags |= 1 << 3).with(|entry| {
            let header = &mut entry.local;
            let values = [header.crc, header.packed_len, header.size];
            (header.crc, header.packed_len, header.size) = (0, 0, 0);
            if signature {
                entry.after.extend(b"PK\x07\x08");
            }
            entry.after.extend(values.into_iter().flat_map(u32::to_le_bytes));
        })
    }
}

impl Header {
    fn write(&self, out: &mut Vec<u8>) {
        put16(out, &[self.version, self.flags, self.method]);
        put32(out, &[self.time, self.crc, self.packed_len, self.size]);
        put16(out, &[self.name.len() as u16, self.extra.len() as u16]);
    }
}

/// The archive of these entries, in this order.
pub(crate) fn zip(entries: &[Entry]) -> Vec<u8> {
    zip_with(entries, b"", entries.len() as u16)
}

pub(crate) fn zip_with(entries: &[Entry], comment: &[u8], count: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let mut offsets = Vec::new();
    for entry in entries {
        offsets.push(out.len() as u32);
        out.extend(b"PK\x03\x04");
        entry.local.write(&mut out);
        out.extend(&entry.local.name);
        out.extend(&entry.local.extra);
        out.extend(&entry.data);
        out.extend(&entry.after);
    }
    let start = out.len() as u32;
    for (entry, offset) in entries.iter().zip(offsets) {
        out.extend(b"PK\x01\x02");
        put16(&mut out, &[entry.made_by]);
        entry.central.write(&mut out);
        put16(&mut out, &[entry.comment.len() as u16, 0, 0]);
        put32(&mut out, &[entry.mode << 16 | entry.dos, entry.offset.unwrap_or(offset)]);
        out.extend(&entry.central.name);
        out.extend(&entry.central.extra);
        out.extend(&entry.comment);
    }
    let len = out.len() as u32 - start;
    out.extend(b"PK\x05\x06");
    put16(&mut out, &[0, 0, count, count]);
    put32(&mut out, &[len, start]);
    put16(&mut out, &[comment.len() as u16]);
    out.extend(comment);
    out
}

/// One extra field.
pub(crate) fn extra(id: u16, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put16(&mut out, &[id, content.len() as u16]);
    out.extend(content);
    out
}

/// The extra field in which Info-ZIP repeats a name in UTF-8, for a header whose own name is `of`.
pub(crate) fn second_name(name: &str, of: &str) -> Vec<u8> {
    let content = [&[1], crc(of.as_bytes()).to_le_bytes().as_slice(), name.as_bytes()].concat();
    extra(0x7075, &content)
}

/// The extra field in which ASi keeps a Unix mode and the target of a link.
pub(crate) fn asi_unix(mode: u16, target: &[u8]) -> Vec<u8> {
    let mut content = mode.to_le_bytes().to_vec();
    put32(&mut content, &[target.len() as u32, 0]);
    content.extend(target);
    extra(0x756e, &[crc(&content).to_le_bytes().as_slice(), &content].concat())
}

fn put16(out: &mut Vec<u8>, values: &[u16]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn put32(out: &mut Vec<u8>, values: &[u32]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

pub(crate) fn deflate(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 1024);
    let mut stream = flate2::Compress::new(flate2::Compression::best(), false);
    let status = stream.compress_vec(content, &mut out, flate2::FlushCompress::Finish).unwrap();
    assert_eq!(status, flate2::Status::StreamEnd);
    out
}

pub(crate) fn crc(content: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(content);
    crc.sum()
}

/// A small honest skill with these entries beside its `SKILL.md`.
pub(crate) fn skill_with(entries: impl IntoIterator<Item = Entry>) -> Vec<u8> {
    let mut all = vec![deflated("SKILL.md", SKILL_MD.as_bytes())];
    all.extend(entries);
    zip(&all)
}

pub(crate) fn read(zip: &[u8]) -> Result<Package, SkillError> {
    skill::read_archive(zip, &PackageLimits::default())
}

pub(crate) fn read_parts(parts: &[(&str, &str)]) -> Result<Package, SkillError> {
    let parts = parts.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
    skill::read_parts(parts.collect(), &PackageLimits::default())
}

/// A skill whose `SKILL.md` has this frontmatter, beside a `main.py`.
pub(crate) fn with_frontmatter(yaml: &str) -> Result<Package, SkillError> {
    let text = format!("---\n{yaml}\n---\nInstructions.\n");
    read_parts(&[("SKILL.md", &text), ("main.py", MAIN_PY)])
}

/// Paths, contents and executable bits: all that a skill is.
pub(crate) fn contents(package: &Package) -> Vec<(&str, &[u8], bool)> {
    let file = |file| {
        let skill::SkillFile { path, bytes, executable }: &skill::SkillFile = file;
        (path.as_str(), bytes.as_ref(), *executable)
    };
    package.files.iter().map(file).collect()
}
