//! The directory of an unconfined run: the layout of a sandbox below a temporary directory.

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
use crate::guest_error::GuestError;
use crate::job::{Job, OutputLimits, Sink, StreamMode, StreamedFile};
use crate::outcome::SkippedFile;

/// The environment variables whose values are paths in the sandbox and must be translated.
const PATH_VARIABLES: [&str; 6] = [
    "SANDBOX_OUTPUT", "SANDBOX_FILES_DIR", "SANDBOX_INPUT_DIR", "SKILL_DIR", "CLAUDE_SKILL_DIR",
    "HOME",
];

/// The directory of one run. Dropping it deletes everything.
pub(super) struct RunDirectory {
    root: tempfile::TempDir,
}

impl RunDirectory {
    pub(super) async fn create(job: &Job) -> io::Result<RunDirectory> {
        let directory =
            RunDirectory { root: tempfile::Builder::new().prefix("skillbox-").tempdir()? };
        let directories = [
            paths::SCRIPTS,
            paths::INPUT_DIR,
            paths::FILES_DIR,
            paths::SKILLS,
            paths::WORKSPACE,
            paths::TMP,
        ];
        for path in directories {
            std::fs::create_dir_all(directory.host_path(path))?;
        }
        for file in &job.files {
            let path = directory.host_path(&file.path);
            path.parent().map(std::fs::create_dir_all).transpose()?;
            let mode = if file.executable { 0o755 } else { 0o644 };
            let mut new =
                std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
            new.write_all(&file.bytes)?;
        }
        for file in &job.streamed {
            directory.write_streamed(file).await?;
        }
        for (path, target) in &job.links {
            symlink(directory.host_path(target), directory.host_path(path))?;
        }
        Ok(directory)
    }

    async fn write_streamed(&self, file: &StreamedFile) -> io::Result<()> {
        let path = self.host_path(&file.path);
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

    pub(super) fn start(
        &self,
        job: &Job,
        search_path: Option<OsString>,
    ) -> io::Result<(Child, LogPipes)> {
        let mut command = Command::new(&job.argv[0]);
        command.args(job.argv[1..].iter().map(|argument| self.translate(job, argument)));
        command.env_clear().envs(search_path.map(|path| ("PATH", path)));
        for (name, value) in &job.env {
            let is_path = PATH_VARIABLES.contains(&name.as_str());
            command.env(
                name,
                if is_path { self.host_path(value).into() } else { OsString::from(value) },
            );
        }
        let pipes = self.set_streams(job, &mut command)?;
        command.current_dir(self.host_path(&job.cwd)).process_group(0).kill_on_drop(true);
        Ok((command.spawn()?, pipes))
    }

    /// Sets the standard streams of the command; returns our ends of the pipes.
    fn set_streams(&self, job: &Job, command: &mut Command) -> io::Result<LogPipes> {
        command.stdin(match &job.stdin {
            Some(bytes) => {
                let mut file = tempfile::tempfile_in(self.root.path())?;
                file.write_all(bytes)?;
                file.rewind()?;
                Stdio::from(file)
            }
            None => Stdio::null(),
        });
        let (stdout, stdout_of_child) = io::pipe()?;
        match job.streams {
            StreamMode::Merged => {
                command.stderr(stdout_of_child.try_clone()?).stdout(stdout_of_child);
                LogPipes::open([(OutputStream::Merged, stdout)])
            }
            StreamMode::Split => {
                let (stderr, stderr_of_child) = io::pipe()?;
                command.stderr(stderr_of_child).stdout(stdout_of_child);
                LogPipes::open([(OutputStream::Stdout, stdout), (OutputStream::Stderr, stderr)])
            }
        }
    }

    pub(super) async fn collect(
        &self,
        limits: &OutputLimits,
        sink: &mut dyn Sink,
    ) -> Result<(OutputDocument, Vec<SkippedFile>), GuestError> {
        let document =
            results::read_document(&self.host_path(paths::OUTPUT_JSON), limits.output_bytes);
        let mut files = FileCollector::new(self.host_path(paths::FILES_DIR), limits);
        files.send_all(sink).await?;
        Ok((document, files.skipped))
    }

    /// Translates a path of the sandbox.
    fn host_path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// Translates an argument that is the path of a file of the job. Other arguments are unchanged.
    fn translate(&self, job: &Job, argument: &str) -> OsString {
        let mut job_paths = job
            .files
            .iter()
            .map(|file| &file.path)
            .chain(job.streamed.iter().map(|file| &file.path));
        let is_job_path = job_paths.any(|path| path == argument);
        if is_job_path { self.host_path(argument).into() } else { argument.into() }
    }
}
