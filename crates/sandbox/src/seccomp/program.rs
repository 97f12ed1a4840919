//! Builds the seccomp programs from the lists.

use super::arguments::{ArgumentTest, LOCK_COMMANDS, denied_arguments};
use super::assembler::{Condition, Program, Rule, answer, by_number, decide, high, low};
use super::calls::ALLOWED;
use super::{FIXED_RLIMIT, GUEST_PID, GUEST_PROTECTED_CALLS};
use std::collections::BTreeMap;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NO_SUCH_CALL: u32 = errno(libc::ENOSYS);
const DENY: u32 = errno(libc::EPERM);
const NO_LOCKS: u32 = errno(libc::ENOLCK);
/// Returns success without an effect.
const FAKE_SUCCESS: u32 = errno(0);

const fn errno(error: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | error as u32
}

/// Allows the listed calls, except with denied arguments. All others fail with `ENOSYS`.
pub(super) fn allowed_calls(families: &'static [i32]) -> Program {
    let mut rules = rules(families);
    let numbers = ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.number));
    let answers = numbers
        .map(|number| (number as u32, decide(&rules.remove(&number).unwrap_or_default(), ALLOW)));
    by_number(&answers.collect(), NO_SUCH_CALL, NO_SUCH_CALL)
}

/// The same without argument rules. For tests that show the effect of those arguments.
#[cfg(any(test, feature = "weakened"))]
pub(super) fn allowed_numbers() -> Program {
    let numbers = ALLOWED.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.number as u32));
    by_number(
        &numbers.map(|number| (number, vec![answer(ALLOW)])).collect(),
        NO_SUCH_CALL,
        NO_SUCH_CALL,
    )
}

/// Rejects record locks with the kernel's error for a lack of memory.
pub(super) fn no_lock_filter() -> Program {
    let command =
        |command: &i32| Rule { conditions: vec![equals(1, *command as u32)], answer: NO_LOCKS };
    let fcntl = decide(&LOCK_COMMANDS.iter().map(command).collect::<Vec<_>>(), ALLOW);
    by_number(&BTreeMap::from([(libc::SYS_fcntl as u32, fcntl)]), ALLOW, NO_SUCH_CALL)
}

/// Suspends calls that may connect to another machine or create a record lock, until the guest
/// continues them.
pub(super) fn notify_calls() -> Program {
    const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
    let command =
        |command: &i32| Rule { conditions: vec![equals(1, *command as u32)], answer: NOTIFY };
    // Only with an address: `sendto` without one is an ordinary write.
    let with_address =
        not_null(4).map(|condition| Rule { conditions: vec![condition], answer: NOTIFY });
    let answers = BTreeMap::from([
        (libc::SYS_connect as u32, vec![answer(NOTIFY)]),
        (
            libc::SYS_fcntl as u32,
            decide(&LOCK_COMMANDS.iter().map(command).collect::<Vec<_>>(), ALLOW),
        ),
        (libc::SYS_sendto as u32, decide(&with_address, ALLOW)),
    ]);
    by_number(&answers, ALLOW, NO_SUCH_CALL)
}

/// All argument rules by call. The first rule that matches decides.
fn rules(families: &'static [i32]) -> BTreeMap<i64, Vec<Rule>> {
    let deny = |tests: Vec<ArgumentTest>| Rule {
        conditions: tests.iter().map(condition).collect(),
        answer: DENY,
    };
    let mut rules: BTreeMap<i64, Vec<Rule>> = denied_arguments(families)
        .into_iter()
        .map(|(call, denied)| (call, denied.into_iter().map(deny).collect()))
        .collect();
    for call in GUEST_PROTECTED_CALLS {
        let targets_guest = Rule { conditions: vec![equals(0, GUEST_PID)], answer: DENY };
        rules.entry(call).or_default().push(targets_guest);
    }
    rules.entry(libc::SYS_prlimit64).or_default().extend(fixed_rlimit_rules());
    let setrlimit = Rule { conditions: vec![equals(0, FIXED_RLIMIT)], answer: FAKE_SUCCESS };
    rules.entry(libc::SYS_setrlimit).or_default().push(setrlimit);
    // A larger receive buffer would also apply to unaccepted connections, which no cgroup charges.
    let receive_buffer =
        vec![equals(1, libc::SOL_SOCKET as u32), equals(2, libc::SO_RCVBUF as u32)];
    rules
        .entry(libc::SYS_setsockopt)
        .or_default()
        .push(Rule { conditions: receive_buffer, answer: FAKE_SUCCESS });
    rules
}

/// The rules for a `prlimit` call that sets the fixed rlimit. If it also queries the old value, it
/// is denied, because returning success would leave that value unset; otherwise it returns success.
fn fixed_rlimit_rules() -> impl Iterator<Item = Rule> {
    let new_value = not_null(2).map(|new| vec![equals(1, FIXED_RLIMIT), new]);
    let with = |conditions: &Vec<Condition>, more: &[Condition], answer| Rule {
        conditions: conditions.iter().chain(more).copied().collect(),
        answer,
    };
    let denied: Vec<Rule> =
        new_value.iter().flat_map(|set| not_null(3).map(|old| with(set, &[old], DENY))).collect();
    // These rules are only reached if the old value is not queried.
    denied.into_iter().chain(new_value.map(|set| with(&set, &[], FAKE_SUCCESS)))
}

fn condition(test: &ArgumentTest) -> Condition {
    match *test {
        ArgumentTest::Bits { argument, mask, value } => {
            Condition::Bits { half: low(argument), mask, value }
        }
        ArgumentTest::NoneOf { argument, values } => {
            Condition::NoneOf { half: low(argument), values }
        }
    }
}

fn equals(argument: u8, value: u32) -> Condition {
    Condition::Bits { half: low(argument), mask: u32::MAX, value }
}

/// An address is not null if either half is not zero: two alternative conditions.
fn not_null(argument: u8) -> [Condition; 2] {
    [low(argument), high(argument)].map(|half| Condition::NoneOf { half, values: &[0] })
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
