//! The system calls a sandbox may make, as data.
//!
//! What is not on the list of calls does not exist (`ENOSYS`), which programs take as an old kernel
//! and work around. Listed calls with arguments that no script needs are refused (`EPERM`), and two
//! are said to have worked and do nothing. None kills: a crash that looks random helps nobody.
//! Where a call is answered by its number alone, the kernel does so from a bitmap.
//!
//! `calls` and `arguments` are the lists; `program` makes what the kernel takes of them, `profile`
//! what container engines take.

mod arguments;
mod calls;
mod profile;
mod program;

use std::sync::LazyLock;

use arguments::{FAMILIES_WITHOUT_NETWORK, HOST_NETWORK_FAMILIES, SOCKET_FAMILIES};
use guest::jail::SandboxNetwork;
pub use profile::profile;

/// The process that is not the script's to signal or to limit: the guest.
const GUEST_PID: u32 = 1;

/// The limit that a script may not even lower. A core limit of 1 means neither a file nor the
/// host's own program that takes core dumps, run by the host's root outside of every limit; 0 would
/// start it again. Programs that set it to 0 want no core dump and get none, so they are told that
/// it worked.
const KEPT_LIMIT: u32 = libc::RLIMIT_CORE;

/// Calls whose first argument may not be the guest: Linux leaves the first process of a namespace
/// alone anyway, but gVisor does not. Not in the profile, which an engine could no longer make a
/// filter of.
const NOT_ON_THE_GUEST: [i64; 6] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_prlimit64,
];

/// The filter of a sandbox.
pub fn program(network: SandboxNetwork) -> Vec<u8> {
    static PROGRAM: LazyLock<Vec<u8>> =
        LazyLock::new(|| program::bytes(&program::allowed_calls(&SOCKET_FAMILIES)));
    match network {
        SandboxNetwork::Own => PROGRAM.clone(),
        SandboxNetwork::Host => program::bytes(&program::allowed_calls(&HOST_NETWORK_FAMILIES)),
    }
}

/// The same for where a network stands around that we did not make and cannot take away: no socket
/// leads to it.
pub fn program_without_network() -> Vec<u8> {
    static PROGRAM: LazyLock<Vec<u8>> =
        LazyLock::new(|| program::bytes(&program::allowed_calls(&FAMILIES_WITHOUT_NETWORK)));
    PROGRAM.clone()
}

/// The same with any arguments, for tests that show what those would do.
#[cfg(feature = "weakened")]
pub fn program_with_any_arguments() -> Vec<u8> {
    program::bytes(&program::allowed_numbers())
}

/// The program that makes calls for other machines and calls for record locks wait for the guest.
/// It refuses nothing.
pub fn notify_filter() -> Vec<u8> {
    program::bytes(&program::notify_calls())
}

/// The program for where the guest cannot count record locks: there are none.
pub fn no_lock_filter() -> Vec<u8> {
    program::bytes(&program::no_lock_filter())
}
