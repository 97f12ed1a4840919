//! `skillbox list`: every skill below a directory, with the error of each invalid one.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use skill::{OpenDirectory, Package, PackageLimits, SkillError};

use crate::output::{Output, note};
use crate::text;

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Directory to search: a skill, or any number of levels above skills.
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Directories that are not searched: they hold thousands of directories and no skills of the user.
const SKIPPED_DIRECTORIES: [&str; 2] = [".git", "node_modules"];

/// PackageLimits the recursion, because a directory tree may be endless (through a mount, for example).
const MAX_DEPTH: usize = 12;

/// A directory that is a skill, or that could not be read.
struct ListedSkill {
    path: PathBuf,
    read: Result<Package, SkillError>,
}

pub(crate) fn run(args: &ListArgs, output: Output) -> Result<ExitCode> {
    let tree = OpenDirectory::open(&args.dir)
        .with_context(|| format!("cannot read the directory {}", args.dir.display()))?;
    let mut skills = Vec::new();
    search(&tree, MAX_DEPTH, &mut skills);
    if output.is_json() {
        output.line(&Value::from(skills.iter().map(document).collect::<Vec<_>>()).to_string())?;
    } else {
        output.table(
            &["path", "name", "version", "scripts", "description"],
            skills.iter().map(row),
        )?;
    }
    let broken = skills.iter().filter(|skill| skill.read.is_err()).count();
    match (skills.len(), broken) {
        (0, _) => note(&format!("no skill below {}", args.dir.display())),
        (_, 0) => {}
        (all, broken) => note(&format!("{broken} of {} are invalid", text::count(all, "skill"))),
    }
    Ok(ExitCode::SUCCESS)
}

/// The skills below a directory that can be used, in the order of their paths.
pub(crate) fn valid_below(directory: &Path) -> Vec<(PathBuf, Package)> {
    let mut skills = Vec::new();
    if let Ok(tree) = OpenDirectory::open(directory) {
        search(&tree, MAX_DEPTH, &mut skills);
    }
    skills.into_iter().filter_map(|ListedSkill { path, read }| Some((path, read.ok()?))).collect()
}

/// Adds the skills below a directory. The directories inside a skill belong to it and are not
/// searched. A link is followed only if it points directly to a skill, so that the search cannot
/// loop or leave the tree.
fn search(tree: &OpenDirectory, depth: usize, skills: &mut Vec<ListedSkill>) {
    let path = tree.path().to_owned();
    let mut names = match tree.entry_names() {
        Ok(names) => names,
        Err(source) => return skills.push(unreadable(path, source)),
    };
    if skill::is_skill(names.iter().filter_map(|name| std::str::from_utf8(name).ok())) {
        return skills.push(ListedSkill {
            path,
            read: skill::read_open_directory(tree, &PackageLimits::default()),
        });
    }
    names.sort();
    for name in names.iter().map(|name| OsStr::from_bytes(name)) {
        match tree.open_subdirectory(Path::new(name)) {
            Ok(below)
                if depth > 0 && !SKIPPED_DIRECTORIES.iter().any(|skipped| name == *skipped) =>
            {
                search(&below, depth - 1, skills);
            }
            Ok(below) => read_if_skill(&below, skills),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                skills.push(unreadable(path.join(name), error));
            }
            // A link, or not a directory.
            Err(_) => {
                if let Ok(target) = tree.open_entry_following_links(name) {
                    read_if_skill(&target, skills);
                }
            }
        }
    }
}

/// The check uses the open directory and not its path, so that a link that changes in between cannot
/// redirect the read.
fn read_if_skill(tree: &OpenDirectory, skills: &mut Vec<ListedSkill>) {
    let names = tree.entry_names().unwrap_or_default();
    if skill::is_skill(names.iter().filter_map(|name| std::str::from_utf8(name).ok())) {
        let read = skill::read_open_directory(tree, &PackageLimits::default());
        skills.push(ListedSkill { path: tree.path().to_owned(), read });
    }
}

fn unreadable(path: PathBuf, source: std::io::Error) -> ListedSkill {
    ListedSkill { read: Err(SkillError::Unreadable { path: path.clone(), source }), path }
}

fn row(ListedSkill { path, read }: &ListedSkill) -> Vec<String> {
    let path = path.display().to_string();
    match read {
        Ok(package) => {
            let scripts: Vec<&str> =
                package.scripts.iter().map(|script| script.path.as_str()).collect();
            let scripts = text::or_dash(Some(&text::brief(&scripts.join(", "), 60)));
            let manifest = &package.manifest;
            let description = text::brief(&manifest.description, 80);
            vec![path, manifest.name.clone(), manifest.version.clone(), scripts, description]
        }
        Err(error) => {
            let dash = || "-".to_owned();
            vec![path, dash(), dash(), dash(), format!("error[{}] {error}", error.slug())]
        }
    }
}

fn document(ListedSkill { path, read }: &ListedSkill) -> Value {
    match read {
        Ok(package) => {
            let manifest = &package.manifest;
            json!({
                "path": path, "valid": true, "name": manifest.name, "version": manifest.version,
                "description": manifest.description, "lang": package.lang(), "mode": manifest.mode,
                "entrypoint": package.entrypoint.as_ref().map(|script| &script.path),
                "scripts": package.scripts, "digest": package.digest,
            })
        }
        Err(error) => {
            json!({"path": path, "valid": false, "error": error.slug(), "message": error.to_string()})
        }
    }
}
