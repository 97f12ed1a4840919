//! The seccomp filters of a sandbox, as data.
//!
//! A system call that is not on the allowlist fails with `ENOSYS`, which programs interpret as an
//! old kernel and work around. Listed calls with arguments that no script needs fail with `EPERM`,
//! and two return success without an effect. No call kills the process: a crash that looks random
//! is hard to diagnose. Where the number alone decides, the kernel answers from a bitmap.
//!
//! `calls` and `arguments` are the lists; `program` and `assembler` compile them to BPF, and
//! `profile` converts them to the format of container engines.

mod arguments;
mod assembler;
mod calls;
mod profile;
mod program;

use std::sync::LazyLock;

use arguments::{FAMILIES_WITHOUT_NETWORK, HOST_NETWORK_FAMILIES, SOCKET_FAMILIES};
use guest::jail::SandboxNetwork;
pub use profile::profile;

/// The pid of the guest, which scripts must not signal or limit.
const GUEST_PID: u32 = 1;

/// The rlimit that a script must not change, not even lower. With a core limit of 1 the kernel
/// writes no core file and does not start the host's core dump handler, which runs as root outside
/// of all limits. A limit of 0 would start it. Programs that set the limit to 0 want no core dump
/// and get none, so their call returns success.
const FIXED_RLIMIT: u32 = libc::RLIMIT_CORE;

/// Calls whose first argument must not be the guest's pid: Linux protects PID 1 of a namespace
/// anyway, but gVisor does not. Not in the profile, which would become too large for an engine to
/// compile.
const GUEST_PROTECTED_CALLS: [i64; 6] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_prlimit64,
];

/// The filter of a native sandbox.
pub(crate) fn program(network: SandboxNetwork) -> Vec<u8> {
    static PROGRAM: LazyLock<Vec<u8>> =
        LazyLock::new(|| assembler::bytes(&program::allowed_calls(&SOCKET_FAMILIES)));
    match network {
        SandboxNetwork::Own => PROGRAM.clone(),
        SandboxNetwork::Host => assembler::bytes(&program::allowed_calls(&HOST_NETWORK_FAMILIES)),
    }
}

/// The filter for a network namespace with external access that cannot be removed (a pod's): no
/// internet socket can be created.
pub(crate) fn program_without_network() -> Vec<u8> {
    static PROGRAM: LazyLock<Vec<u8>> =
        LazyLock::new(|| assembler::bytes(&program::allowed_calls(&FAMILIES_WITHOUT_NETWORK)));
    PROGRAM.clone()
}

/// The filter without argument checks, for tests that show the effect of those arguments.
#[cfg(feature = "weakened")]
pub(crate) fn program_with_any_arguments() -> Vec<u8> {
    assembler::bytes(&program::allowed_numbers())
}

/// The notify filter, which suspends connect and record lock calls until the guest has inspected
/// them. It denies nothing.
pub(crate) fn notify_filter() -> Vec<u8> {
    assembler::bytes(&program::notify_calls())
}

/// The filter that rejects record locks, for where the guest cannot count them.
pub(crate) fn no_lock_filter() -> Vec<u8> {
    assembler::bytes(&program::no_lock_filter())
}
