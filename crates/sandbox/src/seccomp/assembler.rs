//! Assembles BPF programs from rules.
//!
//! The kernel runs a seccomp program once for every existing call number when it is installed, and
//! compiles it, so the time of a launch depends on its structure: one program, which finds a call
//! by binary search. The output of a general compiler for the same lists, with a comparison per
//! call and a program per answer, took 356 µs to install; this takes 164 µs (docs/decisions/0036).

use libc::sock_filter;
use std::collections::BTreeMap;

/// Instructions that decide the answer to a call. Every path through them ends in an answer.
pub(super) type Program = Vec<sock_filter>;

/// The architecture of this machine, as the kernel passes it to a filter.
#[cfg(target_arch = "x86_64")]
pub(super) const AUDIT_ARCH: u32 = 0xc000_003e;

/// The offsets of the call number, the architecture and the arguments (eight bytes each) in the
/// data of a filter.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCHITECTURE: u32 = 4;
pub(super) const ARGUMENTS: u32 = 16;

/// One test of one half of an argument.
#[derive(Clone, Copy)]
pub(super) enum Condition {
    /// The bits of the mask have this value.
    Bits { half: u32, mask: u32, value: u32 },
    /// The argument is none of these.
    NoneOf { half: u32, values: &'static [i32] },
}

/// The answer to a call if all conditions match.
pub(super) struct Rule {
    pub conditions: Vec<Condition>,
    pub answer: u32,
}

/// The offset of the lower half of an argument: all that the kernel uses, unless it is an address.
pub(super) fn low(argument: u8) -> u32 {
    ARGUMENTS + 8 * u32::from(argument)
}

pub(super) fn high(argument: u8) -> u32 {
    low(argument) + 4
}

/// The answer of the first rule that matches, or else `default`.
pub(super) fn decide(rules: &[Rule], default: u32) -> Program {
    rules.iter().flat_map(rule_code).chain([answer(default)]).collect()
}

/// The code of one rule. If it does not match, execution continues after it.
fn rule_code(rule: &Rule) -> Program {
    let mut program = vec![answer(rule.answer)];
    // From the last condition to the first, so that the jump distance to the end is known.
    for condition in rule.conditions.iter().rev() {
        let to_end = program.len();
        let code = match condition {
            Condition::Bits { half, mask, value } => {
                let masked = (*mask != u32::MAX).then(|| and(*mask));
                let test = jump(libc::BPF_JEQ, *value, 0, to_end);
                [load(*half)].into_iter().chain(masked).chain([test]).collect::<Program>()
            }
            Condition::NoneOf { half, values } => {
                let last = values.len() - 1;
                let test = |(number, value): (usize, &i32)| {
                    jump(libc::BPF_JEQ, *value as u32, last - number + to_end, 0)
                };
                [load(*half)].into_iter().chain(values.iter().enumerate().map(test)).collect()
            }
        };
        program.splice(0..0, code);
    }
    program
}

/// Dispatches by call number; `default` answers all other calls of this architecture, and `foreign`
/// those of any other.
pub(super) fn by_number(calls: &BTreeMap<u32, Program>, default: u32, foreign: u32) -> Program {
    let mut ranges = BTreeMap::from([(0, vec![answer(default)])]);
    for (number, program) in calls {
        ranges.insert(*number, program.clone());
        if !calls.contains_key(&(number + 1)) {
            ranges.insert(number + 1, vec![answer(default)]);
        }
    }
    let mut ranges: Vec<(u32, Program)> = ranges.into_iter().collect();
    // Many neighbouring calls have the same answer.
    ranges.dedup_by(|next, previous| bytes(&next.1) == bytes(&previous.1));
    let start =
        [load(ARCHITECTURE), jump(libc::BPF_JEQ, AUDIT_ARCH, 1, 0), answer(foreign), load(NUMBER)];
    start.into_iter().chain(bisect(&ranges)).collect()
}

/// Finds the range of a number by binary search; each range is given by its first number.
fn bisect(ranges: &[(u32, Program)]) -> Program {
    if let [(_, program)] = ranges {
        return program.clone();
    }
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    let (first, lower, upper) = (upper[0].0, bisect(lower), bisect(upper));
    // A conditional jump can skip at most 255 instructions.
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

/// Skips `if_true` instructions if the comparison is true, else `if_false`.
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

pub(super) fn answer(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

/// The program in the kernel's binary format.
pub(super) fn bytes(program: &Program) -> Vec<u8> {
    let bytes = |i: &sock_filter| {
        let (code, k) = (i.code.to_ne_bytes(), i.k.to_ne_bytes());
        [code[0], code[1], i.jt, i.jf, k[0], k[1], k[2], k[3]]
    };
    program.iter().flat_map(bytes).collect()
}
