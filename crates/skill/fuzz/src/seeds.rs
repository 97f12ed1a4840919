//! Writes the seeds of both targets below the directory that is named: made by the same code as the
//! tests'.
#![allow(dead_code, reason = "the tests use more of these modules than the seeds do")]

use std::fs;
use std::path::Path;

#[path = "../../tests/it/corpus.rs"]
mod corpus;
#[path = "../../tests/it/support.rs"]
mod support;

fn main() -> std::io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1) else {
        return Err(std::io::Error::other("name the directory to write to"));
    };
    let archives = corpus::archives().into_iter().map(|(_, bytes)| bytes);
    write(&Path::new(&directory).join("archive"), archives)?;
    let texts = corpus::SKILL_FILES.iter().map(|text| text.as_bytes().to_vec());
    write(&Path::new(&directory).join("skill_file"), texts)
}

fn write(directory: &Path, seeds: impl Iterator<Item = Vec<u8>>) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    for (number, bytes) in seeds.enumerate() {
        fs::write(directory.join(format!("seed-{number}")), bytes)?;
    }
    Ok(())
}
