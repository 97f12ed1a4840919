//! The files that a request names, fetched to be placed beside its input. Part of load: what is missing or too large is
//! refused before a sandbox costs anything.

use std::collections::BTreeSet;

use blobs::Key;
use data_encoding::HEXLOWER;
use sandbox::{JobFile, paths};
use sha2::{Digest, Sha256};
use store::FileRow;
use uuid::Uuid;

use crate::accept::Order;
use crate::halt::Halt;
use crate::runner::Runner;

const MAX_FILES: usize = 100;

/// With the paths they have inside the sandbox.
pub async fn load(runner: &Runner, order: &Order) -> Result<Vec<JobFile>, Halt> {
    let ids = &order.request.input_files;
    if ids.len() > MAX_FILES {
        return Err(Halt::refused(format!("A run takes at most {MAX_FILES} input files.")));
    }
    let mut rows = Vec::new();
    for id in ids {
        rows.push(find(runner, order, id).await?);
    }
    check(&rows, runner.config.policy.max_memory_bytes / 2)?;
    let mut files = Vec::new();
    for row in rows {
        files.push(fetch(runner, &row).await?);
    }
    Ok(files)
}

async fn find(runner: &Runner, order: &Order, id: &str) -> Result<FileRow, Halt> {
    let uuid = Uuid::try_parse(id).map_err(|_| missing(id))?;
    let row = runner.store.get_file(&order.tenant, uuid).await.map_err(|error| {
        tracing::error!(tenant = %order.tenant, id, %error, "looking for an input file failed");
        Halt::unready("The input files could not be read.")
    })?;
    row.ok_or_else(|| missing(id))
}

pub fn missing(id: &str) -> Halt {
    Halt::refused(format!("Input file {id:?} does not exist."))
}

/// Names are checked again: what is stored may be older than the rules, and an artifact's name is a path.
fn check(rows: &[FileRow], room_bytes: u64) -> Result<(), Halt> {
    let mut names = BTreeSet::new();
    for FileRow { id, name, .. } in rows {
        let odd =
            |part: &str| matches!(part, "" | "." | "..") || part.contains('\\') || part.chars().any(char::is_control);
        if name.split('/').any(odd) {
            return Err(Halt::refused(format!("Input file {id} has the name {name:?}, which cannot be placed.")));
        }
        if !names.insert(name) {
            return Err(Halt::refused(format!("Two input files have the name {name:?}.")));
        }
    }
    let total: u64 = rows.iter().map(|row| u64::try_from(row.size_bytes).unwrap_or(0)).sum();
    match total > room_bytes {
        true => Err(Halt::refused(format!(
            "The input files take {total} bytes and no sandbox here holds more than {room_bytes}."
        ))),
        false => Ok(()),
    }
}

async fn fetch(runner: &Runner, row: &FileRow) -> Result<JobFile, Halt> {
    let most = u64::try_from(row.size_bytes).unwrap_or(0);
    let key = Key::parse(&row.blob_key).ok().filter(|key| key.belongs_to(row.tenant.as_str()));
    let key = key.ok_or_else(|| Halt::lost("The input files could not be read."))?;
    match runner.blobs.get(&key, most).await {
        Ok(Some(bytes)) if HEXLOWER.encode(&Sha256::digest(&bytes)) != row.sha256 => {
            tracing::error!(tenant = %row.tenant, id = %row.id, "a stored file is not what was uploaded");
            Err(Halt::refused(format!("Input file {} is not what was uploaded; upload it again.", row.id)))
        }
        Ok(Some(bytes)) => Ok(JobFile { path: format!("{}/{}", paths::INPUT_DIR, row.name), bytes, executable: false }),
        Ok(None) => Err(missing(&row.id.to_string())),
        Err(error) => {
            tracing::error!(tenant = %row.tenant, id = %row.id, %error, "reading an input file failed");
            Err(Halt::unready("The input files could not be read."))
        }
    }
}
