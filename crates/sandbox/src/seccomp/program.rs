//! From the lists to programs for the kernel.

use super::arguments::{LOCK_COMMANDS, Test, refusals};
use super::calls::ALLOWED;
use super::{GUEST_PID, KEPT_LIMIT, NOT_ON_THE_GUEST};
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
    let ranges = ranges(ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.number as u32)).collect());
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

/// Makes calls that may lead to another machine, and those that create a record lock, wait for the guest.
pub fn watched_calls() -> BpfProgram {
    const COMMAND_OF_FCNTL: u32 = 16 + 8;
    const ADDRESS_OF_SENDTO: u32 = 16 + 8 * 4;
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let equals = |value: u32, jt, jf| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, value);
    let answer = |action| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    vec![
        load(ARCHITECTURE),
        equals(AUDIT_ARCH, 0, 11),
        load(NUMBER),
        equals(libc::SYS_connect as u32, 10, 0),
        equals(libc::SYS_fcntl as u32, 5, 0),
        equals(libc::SYS_sendto as u32, 0, 7),
        // Without an address, of which either half is enough, it is an ordinary write.
        load(ADDRESS_OF_SENDTO),
        equals(0, 0, 6),
        load(ADDRESS_OF_SENDTO + 4),
        equals(0, 3, 4),
        load(COMMAND_OF_FCNTL),
        equals(LOCK_COMMANDS[0] as u32, 2, 0),
        equals(LOCK_COMMANDS[1] as u32, 1, 0),
        answer(SeccompAction::Allow.into()),
        answer(libc::SECCOMP_RET_USER_NOTIF),
    ]
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
pub fn refused_arguments(families: &'static [i32]) -> BpfProgram {
    let rule_of = |tests: &Vec<Test>| rule(tests.iter().flat_map(conditions).collect());
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        refusals(families).into_iter().map(|(call, refused)| (call, refused.iter().map(rule_of).collect())).collect();
    for call in NOT_ON_THE_GUEST {
        rules.entry(call).or_default().push(rule(vec![condition(0, Op::Eq, GUEST_PID)]));
    }
    // The other limit that may not be set, when the old one is to be told as well.
    rules.entry(libc::SYS_prlimit64).or_default().push(rule(sets_kept_limit(Op::Ne)));
    without_kill(compile(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32)))
}

fn conditions(test: &Test) -> Vec<Condition> {
    match *test {
        Test::Bits { argument, mask: u32::MAX, value } => vec![condition(argument, Op::Eq, value.into())],
        Test::Bits { argument, mask, value } => vec![condition(argument, Op::MaskedEq(mask.into()), value.into())],
        Test::NoneOf { argument, values } => {
            values.iter().map(|value| condition(argument, Op::Ne, u64::from(*value as u32))).collect()
        }
    }
}

/// Refuses record locks as the kernel does when it has no memory for them.
pub fn no_locks() -> BpfProgram {
    let command = |command: &i32| rule(vec![condition(1, Op::Eq, *command as u64)]);
    let rules = BTreeMap::from([(libc::SYS_fcntl, LOCK_COMMANDS.iter().map(command).collect())]);
    without_kill(compile(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOLCK as u32)))
}

/// Says that the kept limit was set, when nothing else was asked; and that a receive buffer was.
pub fn kept_limit() -> BpfProgram {
    let receive_buffer =
        [condition(1, Op::Eq, libc::SOL_SOCKET as u64), condition(2, Op::Eq, libc::SO_RCVBUF as u64)].to_vec();
    let rules = BTreeMap::from([
        // Connections that nobody accepts would get it too, and those are charged to nobody.
        (libc::SYS_setsockopt, vec![rule(receive_buffer)]),
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
    use super::super::arguments::{FAMILIES_WITHOUT_NETWORK, HOST_NETWORK_FAMILIES, SOCKET_FAMILIES};
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
            let listed = ALLOWED.iter().any(|(_, calls)| calls.iter().any(|call| call.number == i64::from(number)));
            assert_eq!(answer(&program, AUDIT_ARCH, number), if listed { allow } else { refuse }, "call {number}");
            assert_eq!(answer(&program, 0x4000_0003, number), refuse, "call {number} of another architecture");
        }
    }

    #[test]
    fn nothing_is_killed_and_the_programs_are_short() {
        let kinds = [&SOCKET_FAMILIES[..], &HOST_NETWORK_FAMILIES, &FAMILIES_WITHOUT_NETWORK];
        for program in kinds.into_iter().map(refused_arguments).chain([allowed_numbers(), kept_limit()]) {
            assert!(program.len() < 512, "{} instructions", program.len());
            let kill = u32::from(SeccompAction::KillProcess);
            assert!(!program.iter().any(|i| i.code == (libc::BPF_RET | libc::BPF_K) as u16 && i.k == kill));
        }
    }
}
