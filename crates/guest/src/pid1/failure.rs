//! A step that was refused before the script ran; the host is told and the sandbox ends.

use rustix::io::Errno;

pub struct Failure {
    pub step: &'static str,
    pub errno: Errno,
}

impl Failure {
    /// For `map_err`: names the step that failed.
    pub fn at(step: &'static str) -> impl Fn(Errno) -> Failure {
        move |errno| Failure { step, errno }
    }

    /// The same for errors of the standard library.
    pub fn io(step: &'static str) -> impl Fn(std::io::Error) -> Failure {
        move |error| Failure { step, errno: Errno::from_io_error(&error).unwrap_or(Errno::IO) }
    }
}
