use super::super::arguments::{FAMILIES_WITHOUT_NETWORK, HOST_NETWORK_FAMILIES, SOCKET_FAMILIES};
use super::super::assembler::{ARCHITECTURE, ARGUMENTS, AUDIT_ARCH, NUMBER};
use super::*;

const FAMILY_LISTS: [&[i32]; 3] =
    [&SOCKET_FAMILIES, &HOST_NETWORK_FAMILIES, &FAMILIES_WITHOUT_NETWORK];

/// The answer of a program to a call, computed by an interpreter.
fn run(program: &Program, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let (mut at, mut accumulator) = (0, 0_u32);
    loop {
        let i = &program[at];
        at += 1;
        let taken = match u32::from(i.code) {
            c if c == libc::BPF_RET | libc::BPF_K => return i.k,
            c if c == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                accumulator = match i.k {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    half => {
                        let argument = arguments[((half - ARGUMENTS) / 8) as usize];
                        if (half - ARGUMENTS).is_multiple_of(8) {
                            argument as u32
                        } else {
                            (argument >> 32) as u32
                        }
                    }
                };
                continue;
            }
            c if c == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => {
                accumulator &= i.k;
                continue;
            }
            c if c == libc::BPF_JMP | libc::BPF_JA => {
                at += i.k as usize;
                continue;
            }
            c if c == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => accumulator == i.k,
            c if c == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => accumulator >= i.k,
            other => panic!("unexpected instruction {other:#x}"),
        };
        at += usize::from(if taken { i.jt } else { i.jf });
    }
}

/// The answer according to the lists.
fn expected(refused: &[Vec<ArgumentTest>], number: i64, arguments: [u64; 6]) -> u32 {
    let holds = |test: &ArgumentTest| match *test {
        ArgumentTest::Bits { argument, mask, value } => {
            arguments[usize::from(argument)] as u32 & mask == value
        }
        ArgumentTest::NoneOf { argument, values } => {
            !values.contains(&(arguments[usize::from(argument)] as i32))
        }
    };
    let low = |argument: usize| arguments[argument] as u32;
    let sets_kept = number == libc::SYS_prlimit64 && low(1) == FIXED_RLIMIT && arguments[2] != 0;
    if refused.iter().any(|rule| rule.iter().all(holds))
        || GUEST_PROTECTED_CALLS.contains(&number) && low(0) == GUEST_PID
        || sets_kept && arguments[3] != 0
    {
        return DENY;
    }
    let receive_buffer = (libc::SOL_SOCKET as u32, libc::SO_RCVBUF as u32);
    let pretend = sets_kept
        || number == libc::SYS_setrlimit && low(0) == FIXED_RLIMIT
        || number == libc::SYS_setsockopt && (low(1), low(2)) == receive_buffer;
    if pretend { FAKE_SUCCESS } else { ALLOW }
}

/// All values in rules, their neighbours, and some other values.
fn boundary_values() -> Vec<u64> {
    let named =
        FAMILY_LISTS.iter().flat_map(|families| rules(families)).flat_map(|(_, rules)| rules);
    let named = named.flat_map(|rule| rule.conditions).flat_map(|condition| match condition {
        Condition::Bits { value, .. } => vec![value],
        Condition::NoneOf { values, .. } => values.iter().map(|value| *value as u32).collect(),
    });
    let near = named.flat_map(|value| [value.wrapping_sub(1), value, value.wrapping_add(1)]);
    let mut values: Vec<u64> =
        near.map(u64::from).chain([u64::from(u32::MAX), 1 << 32, u64::MAX]).collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[test]
fn exactly_the_listed_calls_are_allowed() {
    let program = allowed_numbers();
    // Includes numbers above the last call, and those of the x32 ABI, which share the architecture.
    for number in (0..1024).chain(0x4000_0000..0x4000_0400) {
        let listed = ALLOWED
            .iter()
            .any(|(_, calls)| calls.iter().any(|call| call.number == i64::from(number)));
        let actual = run(&program, AUDIT_ARCH, number, [0; 6]);
        assert_eq!(actual, if listed { ALLOW } else { NO_SUCH_CALL }, "call {number}");
        let elsewhere = run(&program, 0x4000_0003, number, [0; 6]);
        assert_eq!(elsewhere, NO_SUCH_CALL, "call {number} of another architecture");
    }
}

#[test]
fn answers_to_arguments_match_the_lists() {
    let values = boundary_values();
    for families in FAMILY_LISTS {
        let program = allowed_calls(families);
        let numbers: Vec<i64> =
            ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.number)).collect();
        for number in (0..1024).filter(|number| !numbers.contains(number)) {
            assert_eq!(
                run(&program, AUDIT_ARCH, number as u32, [0; 6]),
                NO_SUCH_CALL,
                "call {number}"
            );
        }
        let (denied_arguments, rules) = (denied_arguments(families), rules(families));
        for number in numbers {
            let refused = denied_arguments.get(&number).map_or(&[][..], Vec::as_slice);
            let seconds = if rules.contains_key(&number) { &values[..] } else { &values[..1] };
            // Two arguments at a time; the others have values that are in no rule, or null.
            for (one, other) in [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)] {
                for first in &values {
                    for second in seconds {
                        let mut arguments = [if number % 2 == 0 { 0 } else { 0xfff_0000 }; 6];
                        (arguments[one], arguments[other]) = (*first, *second);
                        let actual = run(&program, AUDIT_ARCH, number as u32, arguments);
                        assert_eq!(
                            actual,
                            expected(refused, number, arguments),
                            "{number} {arguments:x?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn setting_the_fixed_rlimit_returns_success_without_effect() {
    let program = allowed_calls(&SOCKET_FAMILIES);
    let prlimit = |new: u64, old: u64| {
        run(
            &program,
            AUDIT_ARCH,
            libc::SYS_prlimit64 as u32,
            [0, FIXED_RLIMIT.into(), new, old, 0, 0],
        )
    };
    assert_eq!(prlimit(0x7f00_0000_1000, 0), FAKE_SUCCESS);
    assert_eq!(prlimit(0x7f00_0000_0000, 0), FAKE_SUCCESS, "either half of an address suffices");
    assert_eq!(prlimit(0x7f00_0000_0000, 0x7e00_0000_0000), DENY);
    assert_eq!(prlimit(0, 0x7f00_0000_1000), ALLOW, "a query is allowed");
}

#[test]
fn connects_and_record_locks_are_suspended() {
    let answer_to = |call: i64, arguments| run(&notify_calls(), AUDIT_ARCH, call as u32, arguments);
    let fcntl = |command: i32| answer_to(libc::SYS_fcntl, [3, command as u64, 0, 0, 0, 0]);
    assert_eq!(answer_to(libc::SYS_connect, [0; 6]), libc::SECCOMP_RET_USER_NOTIF);
    assert_eq!(fcntl(libc::F_SETLK), libc::SECCOMP_RET_USER_NOTIF);
    assert_eq!(fcntl(libc::F_SETLKW), libc::SECCOMP_RET_USER_NOTIF);
    assert_eq!(fcntl(libc::F_GETLK), ALLOW);
    for (address, answer) in [
        (0, ALLOW),
        (0x1000, libc::SECCOMP_RET_USER_NOTIF),
        (1 << 40, libc::SECCOMP_RET_USER_NOTIF),
    ] {
        assert_eq!(answer_to(libc::SYS_sendto, [3, 0, 0, 0, address, 0]), answer);
    }
    assert_eq!(answer_to(libc::SYS_write, [0; 6]), ALLOW);
    assert_eq!(
        run(
            &no_lock_filter(),
            AUDIT_ARCH,
            libc::SYS_fcntl as u32,
            [3, libc::F_SETLK as u64, 0, 0, 0, 0]
        ),
        NO_LOCKS
    );
    assert_eq!(
        run(
            &no_lock_filter(),
            AUDIT_ARCH,
            libc::SYS_fcntl as u32,
            [3, libc::F_GETFD as u64, 0, 0, 0, 0]
        ),
        ALLOW
    );
}
