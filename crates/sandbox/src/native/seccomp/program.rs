//! From the lists to programs for the kernel.

use super::{
    ALLOWED, FILE_WATCHING, GUEST_PID, KEPT_LIMIT, NAMESPACE_FLAGS, REFUSED_PRCTL, REFUSED_SOCKETS, SOCKET_FAMILIES,
    SOCKET_PROGRAMS, SOCKET_PROTOCOLS, TERMINAL_INJECTION,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const NO_SUCH_CALL: SeccompAction = SeccompAction::Errno(libc::ENOSYS as u32);

/// How the kernel names this machine to a filter.
#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;

/// Where a filter finds the number and the architecture of a call.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// Allows the listed calls, compared as ranges of neighbours.
///
/// The kernel runs a filter once for every call that exists when it is installed. A comparison for each number, as a
/// general compiler makes it, costs a launch 1.3 ms; ranges make that a tenth.
pub fn allowed_numbers() -> BpfProgram {
    let ranges = ranges(ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(|call| *call as u32)).collect());
    // The program ends with two answers; jumps count the instructions between themselves and their target.
    let total = 3 + 2 * ranges.len() + 2;
    let (refuse, allow) = (total - 2, total - 1);
    let jump = |from: usize, to: usize| u8::try_from(to - from - 1).expect("the program is short");
    let mut program = vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, ARCHITECTURE),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, jump(1, refuse), AUDIT_ARCH),
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER),
    ];
    for range in ranges {
        let at = program.len();
        program.push(instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, jump(at, refuse), *range.start()));
        program.push(instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, jump(at + 1, allow), *range.end()));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, NO_SUCH_CALL.into()));
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, SeccompAction::Allow.into()));
    program
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

fn ranges(mut numbers: Vec<u32>) -> Vec<RangeInclusive<u32>> {
    numbers.sort_unstable();
    let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if *last.end() + 1 == number => *last = *last.start()..=number,
            _ => ranges.push(number..=number),
        }
    }
    ranges
}

/// Refuses listed calls with certain arguments and lets everything else pass to the other filter.
pub fn refused_arguments() -> BpfProgram {
    let is_bit = |argument, bit: i32| condition(argument, Op::MaskedEq(bit as u32 as u64), bit as u32 as u64);
    let is = |argument, value: u64| condition(argument, Op::Eq, value);
    let other_than = |argument, values: &[i32]| {
        rule(values.iter().map(|value| condition(argument, Op::Ne, *value as u64)).collect())
    };
    // The kind shares its argument with two flags.
    let kind_of_socket = |kind: &i32| rule(vec![condition(1, Op::MaskedEq(0xf), *kind as u64)]);
    let other_sockets: Vec<SeccompRule> = [other_than(0, &SOCKET_FAMILIES), other_than(2, &SOCKET_PROTOCOLS)]
        .into_iter()
        .chain(REFUSED_SOCKETS.iter().map(kind_of_socket))
        .collect();
    let kind_of_node =
        |argument, kind: u32| rule(vec![condition(argument, Op::MaskedEq(u64::from(libc::S_IFMT)), u64::from(kind))]);
    let devices = |argument| vec![kind_of_node(argument, libc::S_IFCHR), kind_of_node(argument, libc::S_IFBLK)];
    let socket_option = |name: i32| rule(vec![is(1, libc::SOL_SOCKET as u64), is(2, name as u64)]);
    let rules = BTreeMap::from([
        (libc::SYS_clone, NAMESPACE_FLAGS.iter().map(|flag| rule(vec![is_bit(0, *flag)])).collect()),
        (libc::SYS_socket, other_sockets.clone()),
        (libc::SYS_socketpair, other_sockets),
        (libc::SYS_setsockopt, SOCKET_PROGRAMS.iter().map(|name| socket_option(*name)).collect()),
        (libc::SYS_fcntl, FILE_WATCHING.iter().map(|command| rule(vec![is(1, *command as u64)])).collect()),
        // The other limit that may not be set, when the old one is to be told as well.
        (libc::SYS_prlimit64, vec![rule(vec![is(0, GUEST_PID)]), rule(sets_kept_limit(Op::Ne))]),
        (libc::SYS_mknod, devices(1)),
        (libc::SYS_mknodat, devices(2)),
        (libc::SYS_ioctl, TERMINAL_INJECTION.iter().map(|request| rule(vec![is(1, *request)])).collect()),
        (libc::SYS_prctl, REFUSED_PRCTL.iter().map(|operation| rule(vec![is(0, *operation as u64)])).collect()),
        // Reading the personality is fine; any other would loosen the address layout.
        (libc::SYS_personality, vec![rule(vec![condition(0, Op::Ne, 0xffff_ffff), condition(0, Op::Ne, 0)])]),
    ]);
    without_kill(compile(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32)))
}

/// Says that the kept limit was set, when nothing else was asked.
pub fn kept_limit() -> BpfProgram {
    let rules = BTreeMap::from([
        (libc::SYS_setrlimit, vec![rule(vec![condition(0, Op::Eq, KEPT_LIMIT)])]),
        (libc::SYS_prlimit64, vec![rule(sets_kept_limit(Op::Eq))]),
    ]);
    without_kill(compile(rules, SeccompAction::Allow, SeccompAction::Errno(0)))
}

/// `prlimit64` with a new value for the kept limit, and an address for the old one that is null or is not.
fn sets_kept_limit(old: Op) -> Vec<Condition> {
    let address = |argument, op| Condition::new(argument, Width::Qword, op, 0).expect("argument numbers are below six");
    vec![condition(1, Op::Eq, KEPT_LIMIT), address(2, Op::Ne), address(3, old)]
}

fn condition(argument: u8, op: Op, value: u64) -> Condition {
    Condition::new(argument, Width::Dword, op, value).expect("argument numbers are below six")
}

fn rule(conditions: Vec<Condition>) -> SeccompRule {
    SeccompRule::new(conditions).expect("every rule has a condition")
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, otherwise: SeccompAction, on_match: SeccompAction) -> BpfProgram {
    let arch = TargetArch::try_from(std::env::consts::ARCH).expect("seccompiler knows this machine");
    let filter = SeccompFilter::new(rules, otherwise, on_match, arch).expect("the actions differ");
    filter.try_into().expect("the program is short enough")
}

/// Compiled programs start by killing a caller of another architecture; answer it like any unknown call instead.
fn without_kill(mut program: BpfProgram) -> BpfProgram {
    let kill = u32::from(SeccompAction::KillProcess);
    let refuse = u32::from(NO_SUCH_CALL);
    let returns_kill = |i: &&mut sock_filter| i.code == (libc::BPF_RET | libc::BPF_K) as u16 && i.k == kill;
    program.iter_mut().filter(returns_kill).for_each(|instruction| instruction.k = refuse);
    program
}

/// The program as the kernel takes it.
pub fn bytes(program: &BpfProgram) -> Vec<u8> {
    let bytes = |i: &sock_filter| {
        let (code, k) = (i.code.to_ne_bytes(), i.k.to_ne_bytes());
        [code[0], code[1], i.jt, i.jf, k[0], k[1], k[2], k[3]]
    };
    program.iter().flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program answers to a call, by running it.
    fn answer(program: &BpfProgram, architecture: u32, number: u32) -> u32 {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let i = &program[at];
            let code = u32::from(i.code);
            at += 1;
            let taken = match code & !libc::BPF_K {
                c if c == libc::BPF_RET => return i.k,
                c if c == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    accumulator = if i.k == NUMBER { number } else { architecture };
                    continue;
                }
                c if c == libc::BPF_JMP | libc::BPF_JEQ => accumulator == i.k,
                c if c == libc::BPF_JMP | libc::BPF_JGE => accumulator >= i.k,
                c if c == libc::BPF_JMP | libc::BPF_JGT => accumulator > i.k,
                other => panic!("unexpected instruction {other:#x}"),
            };
            at += usize::from(if taken { i.jt } else { i.jf });
        }
    }

    #[test]
    fn exactly_the_listed_calls_are_allowed() {
        let program = allowed_numbers();
        let (allow, refuse) = (u32::from(SeccompAction::Allow), u32::from(NO_SUCH_CALL));
        // Past the last call, and the numbers of the x32 ABI, which share the architecture.
        for number in (0..1024).chain(0x4000_0000..0x4000_0400) {
            let listed = ALLOWED.iter().any(|(_, calls)| calls.contains(&i64::from(number)));
            assert_eq!(answer(&program, AUDIT_ARCH, number), if listed { allow } else { refuse }, "call {number}");
            assert_eq!(answer(&program, 0x4000_0003, number), refuse, "call {number} of another architecture");
        }
    }

    #[test]
    fn nothing_is_killed_and_the_programs_are_short() {
        for program in [allowed_numbers(), refused_arguments(), kept_limit()] {
            assert!(program.len() < 320, "{} instructions", program.len());
            let kill = u32::from(SeccompAction::KillProcess);
            assert!(!program.iter().any(|i| i.code == (libc::BPF_RET | libc::BPF_K) as u16 && i.k == kill));
        }
    }
}
