//! A setup step that failed before the script ran. It is reported to the host and ends the sandbox.

use rustix::io::Errno;

pub(super) struct SetupFailure {
    pub step: &'static str,
    pub errno: Errno,
}

impl SetupFailure {
    /// For `map_err`: names the step that failed.
    pub(super) fn at(step: &'static str) -> impl Fn(Errno) -> SetupFailure {
        move |errno| SetupFailure { step, errno }
    }

    /// The same for errors of the standard library.
    pub(super) fn io(step: &'static str) -> impl Fn(std::io::Error) -> SetupFailure {
        move |error| SetupFailure { step, errno: Errno::from_io_error(&error).unwrap_or(Errno::IO) }
    }
}
