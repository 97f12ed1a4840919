//! `skillbox list`: every skill below a directory, the broken ones with what is wrong with them.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use skill::{Limits, Package, SkillError, Tree};

use crate::output::{Output, note};
use crate::text;

#[derive(Args)]
pub struct ListArgs {
    /// The directory to look in; itself a skill, or any number of directories above some.
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Directories that hold other people's trees by the thousand, and no skill that somebody put
/// there.
const PASSED_OVER: [&str; 2] = [".git", "node_modules"];

/// Deeper, nobody keeps skills; and a tree that never ends must.
const MAX_DEPTH: usize = 12;

/// What was found at one place.
struct Found {
    path: PathBuf,
    read: Result<Package, SkillError>,
}

pub fn run(args: &ListArgs, output: Output) -> Result<ExitCode> {
    let tree = Tree::open(&args.dir)
        .with_context(|| format!("cannot read the directory {}", args.dir.display()))?;
    let mut found = Vec::new();
    look(&tree, MAX_DEPTH, &mut found);
    if output.is_json() {
        output.line(&Value::from(found.iter().map(document).collect::<Vec<_>>()).to_string())?;
    } else {
        output
            .table(&["path", "name", "version", "scripts", "description"], found.iter().map(row))?;
    }
    let broken = found.iter().filter(|found| found.read.is_err()).count();
    match (found.len(), broken) {
        (0, _) => note(&format!("no skill below {}", args.dir.display())),
        (_, 0) => {}
        (all, broken) => note(&format!("{broken} of {} cannot be used", text::count(all, "skill"))),
    }
    Ok(ExitCode::SUCCESS)
}

/// The skills below a directory that can be used, in the order of their paths.
pub fn valid_below(directory: &Path) -> Vec<(PathBuf, Package)> {
    let mut found = Vec::new();
    if let Ok(tree) = Tree::open(directory) {
        look(&tree, MAX_DEPTH, &mut found);
    }
    found.into_iter().filter_map(|Found { path, read }| Some((path, read.ok()?))).collect()
}

/// A skill's own directories belong to it and are not looked into. Links are not followed further
/// than to a skill.
fn look(tree: &Tree, depth: usize, found: &mut Vec<Found>) {
    let path = tree.path().to_owned();
    let mut names = match tree.names() {
        Ok(names) => names,
        Err(source) => return found.push(unreadable(path, source)),
    };
    if skill::is_skill(names.iter().filter_map(|name| std::str::from_utf8(name).ok())) {
        return found.push(Found { path, read: skill::read_tree(tree, &Limits::default()) });
    }
    names.sort();
    for name in names.iter().map(|name| OsStr::from_bytes(name)) {
        match tree.enter(Path::new(name)) {
            Ok(below) if depth > 0 && !PASSED_OVER.iter().any(|passed| name == *passed) => {
                look(&below, depth - 1, found);
            }
            Ok(below) => read_if_skill(&below, found),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                found.push(unreadable(path.join(name), error));
            }
            // A link to a directory, or no directory.
            Err(_) => {
                if let Ok(target) = tree.follow(name) {
                    read_if_skill(&target, found);
                }
            }
        }
    }
}

/// Whether it is a skill is asked of the open directory, so that a link changed meanwhile leads
/// nowhere else.
fn read_if_skill(tree: &Tree, found: &mut Vec<Found>) {
    let names = tree.names().unwrap_or_default();
    if skill::is_skill(names.iter().filter_map(|name| std::str::from_utf8(name).ok())) {
        let read = skill::read_tree(tree, &Limits::default());
        found.push(Found { path: tree.path().to_owned(), read });
    }
}

fn unreadable(path: PathBuf, source: std::io::Error) -> Found {
    Found { read: Err(SkillError::Unreadable { path: path.clone(), source }), path }
}

fn row(Found { path, read }: &Found) -> Vec<String> {
    let path = path.display().to_string();
    match read {
        Ok(package) => {
            let scripts: Vec<&str> =
                package.scripts.iter().map(|script| script.path.as_str()).collect();
            let shown = text::or_dash(Some(&text::brief(&scripts.join(", "), 60)));
            let manifest = &package.manifest;
            let description = text::brief(&manifest.description, 80);
            vec![path, manifest.name.clone(), manifest.version.clone(), shown, description]
        }
        Err(error) => {
            let dash = || "-".to_owned();
            vec![path, dash(), dash(), dash(), format!("error[{}] {error}", error.slug())]
        }
    }
}

fn document(Found { path, read }: &Found) -> Value {
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
