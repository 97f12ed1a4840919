//! The system calls a sandbox may make, as data.
//!
//! Three filters, of which the kernel takes the stricter answer. The first knows calls by number only: what is
//! not on the list does not exist (`ENOSYS`), which programs take as an old kernel and work around; because it
//! looks at no argument, the kernel answers it from a bitmap. The second refuses (`EPERM`) listed calls with
//! arguments that no script needs. The third says yes to two and does nothing. None kills: a crash that looks
//! random helps nobody.
//!
//! `calls` and `arguments` are the lists; `program` makes what the kernel takes of them, `profile` what container engines
//! take.

mod arguments;
mod calls;
mod profile;
mod program;

use std::sync::LazyLock;

use arguments::{FAMILIES_WITHOUT_NETWORK, HOST_NETWORK_FAMILIES, SOCKET_FAMILIES};
use guest::jail::Network;
pub use profile::profile;

/// The process that is not the script's to signal or to limit: the guest.
const GUEST_PID: u64 = 1;

/// The limit that a script may not even lower. A core limit of 1 means neither a file nor the host's own program that
/// takes core dumps, run by the host's root outside of every limit; 0 would start it again. Programs that set it to
/// 0 want no core dump and get none, so they are told that it worked.
const KEPT_LIMIT: u64 = libc::RLIMIT_CORE as u64;

/// Calls whose first argument may not be the guest: Linux leaves the first process of a namespace alone anyway, but
/// gVisor does not. Not in the profile, which an engine could no longer make a filter of.
const NOT_ON_THE_GUEST: [i64; 6] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_prlimit64,
];

/// All programs, in the order of installation: the list comes last, because it does not have `seccomp` on it.
pub fn programs(network: Network) -> Vec<Vec<u8>> {
    static PROGRAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| made(&SOCKET_FAMILIES));
    match network {
        Network::Own => PROGRAMS.clone(),
        Network::Host => made(&HOST_NETWORK_FAMILIES),
    }
}

/// The same for where a network stands around that we did not make and cannot take away: no socket leads to it.
pub fn programs_without_network() -> Vec<Vec<u8>> {
    static PROGRAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| made(&FAMILIES_WITHOUT_NETWORK));
    PROGRAMS.clone()
}

/// The program that makes calls for other machines and calls for record locks wait for the guest. It refuses nothing.
pub fn witness() -> Vec<u8> {
    program::bytes(&program::watched_calls())
}

/// The program for where the guest cannot count record locks: there are none.
pub fn no_locks() -> Vec<u8> {
    program::bytes(&program::no_locks())
}

fn made(families: &'static [i32]) -> Vec<Vec<u8>> {
    let programs = [program::kept_limit(), program::refused_arguments(families), program::allowed_numbers()];
    programs.map(|program| program::bytes(&program)).to_vec()
}
