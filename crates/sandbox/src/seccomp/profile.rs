//! The lists as a seccomp profile in the format of container engines.
//!
//! A profile can only express what is allowed: if one rule allows a call with any arguments, an
//! engine's library ignores every other rule about it. Each rule that denies arguments is therefore
//! inverted into the set of allowed arguments. Everything else fails with `ENOSYS`. The guest
//! installs the exact filters itself before its job arrives; when two filters deny a call, the
//! kernel returns the error of the newer one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::arguments::{ArgumentTest, SOCKET_FAMILIES, denied_arguments};
use super::calls::ALLOWED;

/// The calls that a guest in a container needs to confine itself; its own filter then forbids them.
const SELF_CONFINEMENT_CALLS: [&str; 3] =
    ["seccomp", "landlock_add_rule", "landlock_restrict_self"];

/// A set of arguments: for each argument the fixed bits (mask) and their values, all of which must
/// match.
type Cube = BTreeMap<u8, (u32, u32)>;

/// The profile, as the text that an engine takes after `seccomp=`.
pub fn profile() -> String {
    let mut rules_by_call = denied_arguments(&SOCKET_FAMILIES);
    let all = ALLOWED.iter().flat_map(|(_, calls)| calls.iter());
    let (by_argument, any_arguments): (Vec<_>, Vec<_>) =
        all.partition(|call| rules_by_call.contains_key(&call.number));
    let any_arguments: Vec<&str> =
        any_arguments.iter().map(|call| call.name()).chain(SELF_CONFINEMENT_CALLS).collect();
    let mut rules = vec![json!({ "names": any_arguments, "action": "SCMP_ACT_ALLOW" })];
    for call in by_argument {
        let remaining = complement(&rules_by_call.remove(&call.number).unwrap_or_default());
        rules.extend(remaining.iter().map(|cube| {
            let arguments: Vec<Value> = cube.iter().map(argument_filter).collect();
            json!({ "names": [call.name()], "action": "SCMP_ACT_ALLOW", "args": arguments })
        }));
    }
    // For engines that do not support another default error: C libraries only fall back to `clone`
    // on this one.
    rules
        .push(json!({ "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS }));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": libc::ENOSYS,
        "architectures": [ARCHITECTURE],
        "syscalls": rules,
    })
    .to_string()
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "SCMP_ARCH_X86_64";

fn argument_filter((index, (mask, value)): (&u8, &(u32, u32))) -> Value {
    json!({ "index": index, "op": "SCMP_CMP_MASKED_EQ", "value": mask, "valueTwo": value })
}

/// All arguments that match none of the rules, as disjoint cubes.
fn complement(rules: &[Vec<ArgumentTest>]) -> Vec<Cube> {
    rules.iter().fold(vec![Cube::new()], |remaining, rule| {
        remaining.iter().flat_map(|cube| without(cube, rule)).collect()
    })
}

/// The part of a cube that does not match a rule: the first test fails, or it matches and the
/// second fails, and so on.
fn without(cube: &Cube, rule: &[ArgumentTest]) -> Vec<Cube> {
    let Some((first, rest)) = rule.split_first() else { return vec![] };
    let mut parts: Vec<Cube> =
        failing_cubes(first).into_iter().filter_map(|part| intersection(cube, &part)).collect();
    for part in matching_cubes(first).iter().filter_map(|part| intersection(cube, part)) {
        parts.extend(without(&part, rest));
    }
    // A rule that matches nothing in the cube must not split it into pieces.
    if never_matches(cube, rule) { vec![cube.clone()] } else { parts }
}

fn never_matches(cube: &Cube, rule: &[ArgumentTest]) -> bool {
    rule.iter()
        .any(|test| matching_cubes(test).iter().all(|part| intersection(cube, part).is_none()))
}

fn matching_cubes(test: &ArgumentTest) -> Vec<Cube> {
    match *test {
        ArgumentTest::Bits { argument, mask, value } => {
            vec![Cube::from([(argument, (mask, value))])]
        }
        ArgumentTest::NoneOf { argument, values } => {
            let rules: Vec<_> = values.iter().map(|value| vec![equals(argument, *value)]).collect();
            complement(&rules)
        }
    }
}

fn failing_cubes(test: &ArgumentTest) -> Vec<Cube> {
    match *test {
        ArgumentTest::NoneOf { argument, values } => {
            values.iter().flat_map(|value| matching_cubes(&equals(argument, *value))).collect()
        }
        // The bits above match, and this one does not.
        ArgumentTest::Bits { argument, mask, value } => {
            let bits = (0..32).rev().map(|bit| 1 << bit).filter(|bit| mask & bit != 0);
            bits.map(|bit: u32| {
                let above = mask & !(bit | (bit - 1));
                Cube::from([(argument, (above | bit, (value & above) | (!value & bit)))])
            })
            .collect()
        }
    }
}

fn equals(argument: u8, value: i32) -> ArgumentTest {
    ArgumentTest::Bits { argument, mask: u32::MAX, value: value as u32 }
}

/// The intersection of two cubes, if it is not empty.
fn intersection(one: &Cube, other: &Cube) -> Option<Cube> {
    let mut cube = one.clone();
    for (argument, (mask, value)) in other {
        let (own_mask, own_value) = cube.get(argument).copied().unwrap_or_default();
        if (value ^ own_value) & mask & own_mask != 0 {
            return None;
        }
        cube.insert(*argument, (mask | own_mask, value | own_value));
    }
    Some(cube)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    type ArgumentRules = Vec<Vec<ArgumentTest>>;

    fn is_denied(rules: &[Vec<ArgumentTest>], arguments: &[u32; 4]) -> bool {
        let test_holds = |test: &ArgumentTest| match *test {
            ArgumentTest::Bits { argument, mask, value } => {
                arguments[usize::from(argument)] & mask == value
            }
            ArgumentTest::NoneOf { argument, values } => {
                !values.contains(&(arguments[usize::from(argument)] as i32))
            }
        };
        rules.iter().any(|rule| rule.iter().all(test_holds))
    }

    fn matching(cubes: &[Cube], arguments: &[u32; 4]) -> usize {
        let matches = |cube: &&Cube| {
            cube.iter()
                .all(|(argument, (mask, value))| arguments[usize::from(*argument)] & mask == *value)
        };
        cubes.iter().filter(matches).count()
    }

    /// Numbers near those that occur in rules, and any others.
    fn number() -> impl Strategy<Value = u32> {
        let known = [
            0,
            1,
            2,
            3,
            6,
            10,
            17,
            22,
            26,
            35,
            50,
            62,
            1024,
            1026,
            0x5412,
            0x541c,
            0x1000_0000,
            0x2000,
            u32::MAX,
        ];
        prop_oneof![proptest::sample::select(known.to_vec()), 0..64u32, any::<u32>()]
    }

    proptest! {
        #[test]
        fn allows_exactly_what_is_not_denied_with_one_rule_each(a in number(), b in number(), c in number(), d in number()) {
            static RULES: LazyLock<Vec<(ArgumentRules, Vec<Cube>)>> =
                LazyLock::new(|| denied_arguments(&SOCKET_FAMILIES).into_values().map(|rules| (rules.clone(), complement(&rules))).collect());
            for (rules, remaining) in RULES.iter() {
                prop_assert_eq!(matching(remaining, &[a, b, c, d]), usize::from(!is_denied(rules, &[a, b, c, d])));
            }
        }
    }

    #[test]
    fn profile_is_short_enough_for_the_kernel() {
        let cubes: usize =
            denied_arguments(&SOCKET_FAMILIES).values().map(|rules| complement(rules).len()).sum();
        // Each needs about ten instructions, of the 4096 that a filter can have.
        assert!(cubes < 400, "{cubes} rules");
    }

    #[test]
    fn the_profile() {
        insta::assert_snapshot!(profile().replace("},{", "},\n{"));
    }
}
