//! From the lists to programs for the kernel.
//!
//! The kernel runs a program once for every call that exists when it is installed, and translates
//! it, so the time of a launch depends on how it is built: one program, which finds a call by
//! bisection. What a general compiler made of these lists, a comparison for each call and a program
//! for each answer, took 356 µs to install; this takes 164 µs (docs/decisions/0036).

use super::arguments::{LOCK_COMMANDS, Test, refusals};
use super::calls::ALLOWED;
use super::{GUEST_PID, KEPT_LIMIT, NOT_ON_THE_GUEST};
use libc::sock_filter;
use std::collections::BTreeMap;

/// Instructions that answer a call. Every path through them ends in an answer.
pub type Program = Vec<sock_filter>;

/// How the kernel names this machine to a filter.
#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;

/// Where a filter finds the number and the architecture of a call, and its arguments of eight bytes
/// each.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NO_SUCH_CALL: u32 = errno(libc::ENOSYS);
const REFUSE: u32 = errno(libc::EPERM);
const NO_MORE_LOCKS: u32 = errno(libc::ENOLCK);
/// Success, without doing anything.
const PRETEND: u32 = errno(0);

const fn errno(error: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | error as u32
}

/// One test of one half of an argument.
#[derive(Clone, Copy)]
enum Condition {
    /// These bits have this value.
    Bits { half: u32, mask: u32, value: u32 },
    /// It is none of these.
    NoneOf { half: u32, values: &'static [i32] },
}

/// What a call is answered when all conditions hold.
struct Rule {
    conditions: Vec<Condition>,
    answer: u32,
}

/// Allows the listed calls, with arguments that are not refused; no others exist.
pub fn allowed_calls(families: &'static [i32]) -> Program {
    let mut rules = rules(families);
    let numbers = ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.number));
    let answers =
        numbers.map(|number| (number as u32, decide(&rules.remove(&number).unwrap_or_default())));
    by_number(&answers.collect(), NO_SUCH_CALL)
}

/// The same, whatever their arguments. For tests that show what the arguments would do.
#[cfg(any(test, feature = "weakened"))]
pub fn allowed_numbers() -> Program {
    let numbers = ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.number as u32));
    by_number(&numbers.map(|number| (number, vec![answer(ALLOW)])).collect(), NO_SUCH_CALL)
}

/// Refuses record locks as the kernel does when it has no memory for them.
pub fn no_lock_filter() -> Program {
    let command = |command: &i32| Rule {
        conditions: vec![equals(1, *command as u32)],
        answer: NO_MORE_LOCKS,
    };
    let fcntl = decide(&LOCK_COMMANDS.iter().map(command).collect::<Vec<_>>());
    by_number(&BTreeMap::from([(libc::SYS_fcntl as u32, fcntl)]), ALLOW)
}

/// Makes calls that may lead to another machine, and those that create a record lock, wait for the
/// guest.
pub fn notify_calls() -> Program {
    const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
    let command =
        |command: &i32| Rule { conditions: vec![equals(1, *command as u32)], answer: NOTIFY };
    // Without an address, of which either half is enough, it is an ordinary write.
    let to_an_address =
        not_null(4).map(|condition| Rule { conditions: vec![condition], answer: NOTIFY });
    let answers = BTreeMap::from([
        (libc::SYS_connect as u32, vec![answer(NOTIFY)]),
        (libc::SYS_fcntl as u32, decide(&LOCK_COMMANDS.iter().map(command).collect::<Vec<_>>())),
        (libc::SYS_sendto as u32, decide(&to_an_address)),
    ]);
    by_number(&answers, ALLOW)
}

/// All rules about arguments. Where several hold, the first one counts.
fn rules(families: &'static [i32]) -> BTreeMap<i64, Vec<Rule>> {
    let refuse = |tests: Vec<Test>| Rule {
        conditions: tests.iter().map(condition).collect(),
        answer: REFUSE,
    };
    let mut rules: BTreeMap<i64, Vec<Rule>> = refusals(families)
        .into_iter()
        .map(|(call, refused)| (call, refused.into_iter().map(refuse).collect()))
        .collect();
    for call in NOT_ON_THE_GUEST {
        let on_the_guest = Rule { conditions: vec![equals(0, GUEST_PID)], answer: REFUSE };
        rules.entry(call).or_default().push(on_the_guest);
    }
    rules.entry(libc::SYS_prlimit64).or_default().extend(prlimit_of_the_kept_limit());
    let setrlimit = Rule { conditions: vec![equals(0, KEPT_LIMIT)], answer: PRETEND };
    rules.entry(libc::SYS_setrlimit).or_default().push(setrlimit);
    // Connections that nobody accepts would get the receive buffer too, and those are charged to
    // nobody.
    let receive_buffer =
        vec![equals(1, libc::SOL_SOCKET as u32), equals(2, libc::SO_RCVBUF as u32)];
    rules
        .entry(libc::SYS_setsockopt)
        .or_default()
        .push(Rule { conditions: receive_buffer, answer: PRETEND });
    rules
}

/// A new value for the kept limit is refused when the old one is to be told as well, and otherwise
/// said to be set.
fn prlimit_of_the_kept_limit() -> impl Iterator<Item = Rule> {
    let new_value = not_null(2).map(|new| vec![equals(1, KEPT_LIMIT), new]);
    let with = |conditions: &Vec<Condition>, more: &[Condition], answer| Rule {
        conditions: conditions.iter().chain(more).copied().collect(),
        answer,
    };
    let refused: Vec<Rule> =
        new_value.iter().flat_map(|set| not_null(3).map(|old| with(set, &[old], REFUSE))).collect();
    // Only what was not refused gets here: its old value goes nowhere.
    refused.into_iter().chain(new_value.map(|set| with(&set, &[], PRETEND)))
}

fn condition(test: &Test) -> Condition {
    match *test {
        Test::Bits { argument, mask, value } => {
            Condition::Bits { half: low(argument), mask, value }
        }
        Test::NoneOf { argument, values } => Condition::NoneOf { half: low(argument), values },
    }
}

fn equals(argument: u8, value: u32) -> Condition {
    Condition::Bits { half: low(argument), mask: u32::MAX, value }
}

/// That an address is not null, as two conditions of which one is enough.
fn not_null(argument: u8) -> [Condition; 2] {
    [low(argument), high(argument)].map(|half| Condition::NoneOf { half, values: &[0] })
}

/// Where the lower half of an argument is: all that the kernel itself looks at, unless it is an
/// address.
fn low(argument: u8) -> u32 {
    ARGUMENTS + 8 * u32::from(argument)
}

fn high(argument: u8) -> u32 {
    low(argument) + 4
}

/// Answers by the first rule that holds; without one the call is allowed.
fn decide(rules: &[Rule]) -> Program {
    rules.iter().flat_map(decide_by).chain([answer(ALLOW)]).collect()
}

/// One rule. What comes behind it is for when it does not hold.
fn decide_by(rule: &Rule) -> Program {
    let mut program = vec![answer(rule.answer)];
    // From the last condition to the first, so that the distance to what comes behind is known.
    for condition in rule.conditions.iter().rev() {
        let behind = program.len();
        let code = match condition {
            Condition::Bits { half, mask, value } => {
                let masked = (*mask != u32::MAX).then(|| and(*mask));
                let test = jump(libc::BPF_JEQ, *value, 0, behind);
                [load(*half)].into_iter().chain(masked).chain([test]).collect::<Program>()
            }
            Condition::NoneOf { half, values } => {
                let left = values.len() - 1;
                let test = |(number, value): (usize, &i32)| {
                    jump(libc::BPF_JEQ, *value as u32, left - number + behind, 0)
                };
                [load(*half)].into_iter().chain(values.iter().enumerate().map(test)).collect()
            }
        };
        program.splice(0..0, code);
    }
    program
}

/// Goes to the instructions for a call; to an answer for all others of this machine, and there are
/// none of other machines.
fn by_number(calls: &BTreeMap<u32, Program>, others: u32) -> Program {
    let mut ranges = BTreeMap::from([(0, vec![answer(others)])]);
    for (number, program) in calls {
        ranges.insert(*number, program.clone());
        if !calls.contains_key(&(number + 1)) {
            ranges.insert(number + 1, vec![answer(others)]);
        }
    }
    let mut ranges: Vec<(u32, Program)> = ranges.into_iter().collect();
    // Most neighbours are answered alike.
    ranges.dedup_by(|next, previous| bytes(&next.1) == bytes(&previous.1));
    let start = [
        load(ARCHITECTURE),
        jump(libc::BPF_JEQ, AUDIT_ARCH, 1, 0),
        answer(NO_SUCH_CALL),
        load(NUMBER),
    ];
    start.into_iter().chain(bisect(&ranges)).collect()
}

/// Finds the range of a number, whose first number each range begins with.
fn bisect(ranges: &[(u32, Program)]) -> Program {
    if let [(_, program)] = ranges {
        return program.clone();
    }
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    let (first, lower, upper) = (upper[0].0, bisect(lower), bisect(upper));
    // A conditional jump goes no farther than 255 instructions.
    let over = match u8::try_from(lower.len()) {
        Ok(_) => vec![jump(libc::BPF_JGE, first, lower.len(), 0)],
        Err(_) => vec![jump(libc::BPF_JGE, first, 0, 1), skip(lower.len())],
    };
    over.into_iter().chain(lower).chain(upper).collect()
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

fn and(mask: u32) -> sock_filter {
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, mask)
}

/// Skips so many instructions when the comparison holds, and so many when it does not.
fn jump(comparison: u32, value: u32, if_true: usize, if_false: usize) -> sock_filter {
    let distance = |count: usize| u8::try_from(count).expect("the rules of one call are short");
    instruction(
        libc::BPF_JMP | comparison | libc::BPF_K,
        distance(if_true),
        distance(if_false),
        value,
    )
}

fn skip(count: usize) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, count as u32)
}

fn answer(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

/// The program as the kernel takes it.
pub fn bytes(program: &Program) -> Vec<u8> {
    let bytes = |i: &sock_filter| {
        let (code, k) = (i.code.to_ne_bytes(), i.k.to_ne_bytes());
        [code[0], code[1], i.jt, i.jf, k[0], k[1], k[2], k[3]]
    };
    program.iter().flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::super::arguments::{
        FAMILIES_WITHOUT_NETWORK, HOST_NETWORK_FAMILIES, SOCKET_FAMILIES,
    };
    use super::*;

    const KINDS: [&[i32]; 3] =
        [&SOCKET_FAMILIES, &HOST_NETWORK_FAMILIES, &FAMILIES_WITHOUT_NETWORK];

    /// What a program answers to a call, by running it.
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

    /// What the lists say, without a program.
    fn expected(refused: &[Vec<Test>], number: i64, arguments: [u64; 6]) -> u32 {
        let holds = |test: &Test| match *test {
            Test::Bits { argument, mask, value } => {
                arguments[usize::from(argument)] as u32 & mask == value
            }
            Test::NoneOf { argument, values } => {
                !values.contains(&(arguments[usize::from(argument)] as i32))
            }
        };
        let low = |argument: usize| arguments[argument] as u32;
        let sets_kept = number == libc::SYS_prlimit64 && low(1) == KEPT_LIMIT && arguments[2] != 0;
        if refused.iter().any(|rule| rule.iter().all(holds))
            || NOT_ON_THE_GUEST.contains(&number) && low(0) == GUEST_PID
            || sets_kept && arguments[3] != 0
        {
            return REFUSE;
        }
        let receive_buffer = (libc::SOL_SOCKET as u32, libc::SO_RCVBUF as u32);
        let pretend = sets_kept
            || number == libc::SYS_setrlimit && low(0) == KEPT_LIMIT
            || number == libc::SYS_setsockopt && (low(1), low(2)) == receive_buffer;
        if pretend { PRETEND } else { ALLOW }
    }

    /// Every value that a rule of any call names, its neighbours, and some that none does.
    fn telling_values() -> Vec<u64> {
        let named = KINDS.iter().flat_map(|families| rules(families)).flat_map(|(_, rules)| rules);
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
        // Past the last call, and the numbers of the x32 ABI, which share the architecture.
        for number in (0..1024).chain(0x4000_0000..0x4000_0400) {
            let listed = ALLOWED
                .iter()
                .any(|(_, calls)| calls.iter().any(|call| call.number == i64::from(number)));
            let answered = run(&program, AUDIT_ARCH, number, [0; 6]);
            assert_eq!(answered, if listed { ALLOW } else { NO_SUCH_CALL }, "call {number}");
            let elsewhere = run(&program, 0x4000_0003, number, [0; 6]);
            assert_eq!(elsewhere, NO_SUCH_CALL, "call {number} of another architecture");
        }
    }

    #[test]
    fn arguments_are_answered_as_the_lists_say() {
        let values = telling_values();
        for families in KINDS {
            let program = allowed_calls(families);
            let numbers: Vec<i64> = ALLOWED
                .iter()
                .flat_map(|(_, calls)| calls.iter().map(|call| call.number))
                .collect();
            for number in (0..1024).filter(|number| !numbers.contains(number)) {
                assert_eq!(
                    run(&program, AUDIT_ARCH, number as u32, [0; 6]),
                    NO_SUCH_CALL,
                    "call {number}"
                );
            }
            let (refusals, rules) = (refusals(families), rules(families));
            for number in numbers {
                let refused = refusals.get(&number).map_or(&[][..], Vec::as_slice);
                let seconds = if rules.contains_key(&number) { &values[..] } else { &values[..1] };
                // Two arguments at a time; the others are none that a rule names, or null.
                for (one, other) in [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)] {
                    for first in &values {
                        for second in seconds {
                            let mut arguments = [if number % 2 == 0 { 0 } else { 0xfff_0000 }; 6];
                            (arguments[one], arguments[other]) = (*first, *second);
                            let answered = run(&program, AUDIT_ARCH, number as u32, arguments);
                            assert_eq!(
                                answered,
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
    fn the_kept_limit_is_told_to_be_set_and_is_not() {
        let program = allowed_calls(&SOCKET_FAMILIES);
        let prlimit = |new: u64, old: u64| {
            run(
                &program,
                AUDIT_ARCH,
                libc::SYS_prlimit64 as u32,
                [0, KEPT_LIMIT.into(), new, old, 0, 0],
            )
        };
        assert_eq!(prlimit(0x7f00_0000_1000, 0), PRETEND);
        assert_eq!(prlimit(0x7f00_0000_0000, 0), PRETEND, "of an address either half is enough");
        assert_eq!(prlimit(0x7f00_0000_0000, 0x7e00_0000_0000), REFUSE);
        assert_eq!(prlimit(0, 0x7f00_0000_1000), ALLOW, "to ask for it changes nothing");
    }

    #[test]
    fn calls_for_others_and_record_locks_wait_for_the_guest() {
        let asked = |call: i64, arguments| run(&notify_calls(), AUDIT_ARCH, call as u32, arguments);
        let fcntl = |command: i32| asked(libc::SYS_fcntl, [3, command as u64, 0, 0, 0, 0]);
        assert_eq!(asked(libc::SYS_connect, [0; 6]), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(fcntl(libc::F_SETLK), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(fcntl(libc::F_SETLKW), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(fcntl(libc::F_GETLK), ALLOW);
        for (address, answer) in [
            (0, ALLOW),
            (0x1000, libc::SECCOMP_RET_USER_NOTIF),
            (1 << 40, libc::SECCOMP_RET_USER_NOTIF),
        ] {
            assert_eq!(asked(libc::SYS_sendto, [3, 0, 0, 0, address, 0]), answer);
        }
        assert_eq!(asked(libc::SYS_write, [0; 6]), ALLOW);
        assert_eq!(
            run(
                &no_lock_filter(),
                AUDIT_ARCH,
                libc::SYS_fcntl as u32,
                [3, libc::F_SETLK as u64, 0, 0, 0, 0]
            ),
            NO_MORE_LOCKS
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
}
