//! The paths of the contract below a temporary directory.

use std::ffi::OsString;
use std::io::{self, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;

use guest::protocol::paths;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::logs::LogPipes;
use super::results::{self, FileCollector, OutputDocument};
use crate::OutputStream;
use crate::guest::GuestError;
use crate::job::{Job, OutputLimits, Sink, StreamMode, StreamedFile};
use crate::outcome::SkippedFile;

/// Variables of the contract that are paths; all others are the caller's own, or text.
const PATH_VARIABLES: [&str; 6] = [
    "SANDBOX_OUTPUT", "SANDBOX_FILES_DIR", "SANDBOX_INPUT_DIR", "SKILL_DIR", "CLAUDE_SKILL_DIR",
    "HOME",
];

/// Everything of one run. Dropped, all of it goes.
pub struct RunDirectory {
    root: tempfile::TempDir,
}

impl RunDirectory {
    pub async fn make(job: &Job) -> io::Result<RunDirectory> {
        let place = RunDirectory { root: tempfile::Builder::new().prefix("skillbox-").tempdir()? };
        let directories = [
            paths::SCRIPTS,
            paths::INPUT_DIR,
            paths::FILES_DIR,
            paths::SKILLS,
            paths::WORKSPACE,
            paths::TMP,
        ];
        for directory in directories {
            std::fs::create_dir_all(place.inside(directory))?;
        }
        for file in &job.files {
            let path = place.inside(&file.path);
            path.parent().map(std::fs::create_dir_all).transpose()?;
            let mode = if file.executable { 0o755 } else { 0o644 };
            let mut new =
                std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
            new.write_all(&file.bytes)?;
        }
        for file in &job.streamed {
            place.receive(file).await?;
        }
        for (path, target) in &job.links {
            symlink(place.inside(target), place.inside(path))?;
        }
        Ok(place)
    }

    async fn receive(&self, file: &StreamedFile) -> io::Result<()> {
        let path = self.inside(&file.path);
        path.parent().map(std::fs::create_dir_all).transpose()?;
        let mut new = tokio::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(path)
            .await?;
        let mut stream = file.source.open().await?.take(file.size);
        let read = tokio::io::copy(&mut stream, &mut new).await?;
        new.flush().await?;
        if read < file.size { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    pub fn start(&self, job: &Job, search_path: Option<OsString>) -> io::Result<(Child, LogPipes)> {
        let mut command = Command::new(&job.argv[0]);
        command.args(job.argv[1..].iter().map(|word| self.translate(job, word)));
        command.env_clear().envs(search_path.map(|path| ("PATH", path)));
        for (name, value) in &job.env {
            let is_path = PATH_VARIABLES.contains(&name.as_str());
            command
                .env(name, if is_path { self.inside(value).into() } else { OsString::from(value) });
        }
        let pipes = self.streams(job, &mut command)?;
        command.current_dir(self.inside(&job.cwd)).process_group(0).kill_on_drop(true);
        Ok((command.spawn()?, pipes))
    }

    /// Standard input, and where the other two go.
    fn streams(&self, job: &Job, command: &mut Command) -> io::Result<LogPipes> {
        command.stdin(match &job.stdin {
            Some(bytes) => {
                let mut file = tempfile::tempfile_in(self.root.path())?;
                file.write_all(bytes)?;
                file.rewind()?;
                Stdio::from(file)
            }
            None => Stdio::null(),
        });
        let (stdout, of_child) = io::pipe()?;
        match job.streams {
            StreamMode::Merged => {
                command.stderr(of_child.try_clone()?).stdout(of_child);
                LogPipes::open([(OutputStream::Merged, stdout)])
            }
            StreamMode::Split => {
                let (stderr, stderr_of_child) = io::pipe()?;
                command.stderr(stderr_of_child).stdout(of_child);
                LogPipes::open([(OutputStream::Stdout, stdout), (OutputStream::Stderr, stderr)])
            }
        }
    }

    pub async fn collect(
        &self,
        caps: &OutputLimits,
        sink: &mut dyn Sink,
    ) -> Result<(OutputDocument, Vec<SkippedFile>), GuestError> {
        let document = results::document(&self.inside(paths::OUTPUT_JSON), caps.output_bytes);
        let mut files = FileCollector::new(self.inside(paths::FILES_DIR), caps);
        files.send(sink).await?;
        Ok((document, files.skipped))
    }

    /// Where a path of the contract is here.
    fn inside(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// The script's own path, or that of what runs it; other words mean what the caller meant.
    fn translate(&self, job: &Job, word: &str) -> OsString {
        let mut placed = job
            .files
            .iter()
            .map(|file| &file.path)
            .chain(job.streamed.iter().map(|file| &file.path));
        let is_placed = placed.any(|path| path == word);
        if is_placed { self.inside(word).into() } else { word.into() }
    }
}
