//! The lists as a profile in the form that container engines take.
//!
//! A profile can only say what is allowed: an engine's library takes a call that is allowed
//! whatever its arguments and forgets every other rule about it. So each rule that refuses is
//! turned around, into the arguments that are left. Everything else does not exist (`ENOSYS`); a
//! guest puts the exact filters on itself before its job comes, and of two refusals the kernel
//! gives the answer of the newer filter.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::arguments::{SOCKET_FAMILIES, Test, refusals};
use super::calls::ALLOWED;

/// What a guest in a container needs to put its own filters on, and what those then forbid.
const TO_CONFINE_ITSELF: [&str; 3] = ["seccomp", "landlock_add_rule", "landlock_restrict_self"];

/// The bits of each argument that are fixed, and how; all of them must match.
type Cube = BTreeMap<u8, (u32, u32)>;

/// The profile, as the text that an engine wants after `seccomp=`.
pub fn profile() -> String {
    let mut refusals = refusals(&SOCKET_FAMILIES);
    let all = ALLOWED.iter().flat_map(|(_, calls)| calls.iter());
    let (by_argument, whatever): (Vec<_>, Vec<_>) =
        all.partition(|call| refusals.contains_key(&call.number));
    let whatever: Vec<&str> =
        whatever.iter().map(|call| call.name()).chain(TO_CONFINE_ITSELF).collect();
    let mut rules = vec![json!({ "names": whatever, "action": "SCMP_ACT_ALLOW" })];
    for call in by_argument {
        let left = complement(&refusals.remove(&call.number).unwrap_or_default());
        rules.extend(left.iter().map(|cube| {
            let arguments: Vec<Value> = cube.iter().map(argument).collect();
            json!({ "names": [call.name()], "action": "SCMP_ACT_ALLOW", "args": arguments })
        }));
    }
    // For engines that do not know of another default error: C libraries fall back to `clone` on
    // this one only.
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

fn argument((index, (mask, value)): (&u8, &(u32, u32))) -> Value {
    json!({ "index": index, "op": "SCMP_CMP_MASKED_EQ", "value": mask, "valueTwo": value })
}

/// All arguments for which none of the rules holds, as cubes that do not overlap.
fn complement(rules: &[Vec<Test>]) -> Vec<Cube> {
    rules.iter().fold(vec![Cube::new()], |left, rule| {
        left.iter().flat_map(|cube| without(cube, rule)).collect()
    })
}

/// The part of a cube in which a rule does not hold: the first test fails, or it holds and the
/// second fails, and so on.
fn without(cube: &Cube, rule: &[Test]) -> Vec<Cube> {
    let Some((first, rest)) = rule.split_first() else { return vec![] };
    let mut parts: Vec<Cube> =
        fails(first).into_iter().filter_map(|part| both(cube, &part)).collect();
    for part in holds(first).iter().filter_map(|part| both(cube, part)) {
        parts.extend(without(&part, rest));
    }
    // A rule that never holds in here leaves the cube whole, rather than in pieces.
    if holds_nowhere(cube, rule) { vec![cube.clone()] } else { parts }
}

fn holds_nowhere(cube: &Cube, rule: &[Test]) -> bool {
    rule.iter().any(|test| holds(test).iter().all(|part| both(cube, part).is_none()))
}

fn holds(test: &Test) -> Vec<Cube> {
    match *test {
        Test::Bits { argument, mask, value } => vec![Cube::from([(argument, (mask, value))])],
        Test::NoneOf { argument, values } => {
            let rules: Vec<_> = values.iter().map(|value| vec![is(argument, *value)]).collect();
            complement(&rules)
        }
    }
}

fn fails(test: &Test) -> Vec<Cube> {
    match *test {
        Test::NoneOf { argument, values } => {
            values.iter().flat_map(|value| holds(&is(argument, *value))).collect()
        }
        // The bits above are as they should be, and this one is not.
        Test::Bits { argument, mask, value } => {
            let bits = (0..32).rev().map(|bit| 1 << bit).filter(|bit| mask & bit != 0);
            bits.map(|bit: u32| {
                let above = mask & !(bit | (bit - 1));
                Cube::from([(argument, (above | bit, (value & above) | (!value & bit)))])
            })
            .collect()
        }
    }
}

fn is(argument: u8, value: i32) -> Test {
    Test::Bits { argument, mask: u32::MAX, value: value as u32 }
}

/// The common part of two cubes, if they have one.
fn both(one: &Cube, other: &Cube) -> Option<Cube> {
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

    type Refused = Vec<Vec<Test>>;

    fn refused(rules: &[Vec<Test>], arguments: &[u32; 4]) -> bool {
        let test_holds = |test: &Test| match *test {
            Test::Bits { argument, mask, value } => {
                arguments[usize::from(argument)] & mask == value
            }
            Test::NoneOf { argument, values } => {
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

    /// Numbers near those that rules are about, and any others.
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
        fn exactly_what_is_not_refused_is_allowed_and_by_one_rule(a in number(), b in number(), c in number(), d in number()) {
            static RULES: LazyLock<Vec<(Refused, Vec<Cube>)>> =
                LazyLock::new(|| refusals(&SOCKET_FAMILIES).into_values().map(|rules| (rules.clone(), complement(&rules))).collect());
            for (rules, left) in RULES.iter() {
                prop_assert_eq!(matching(left, &[a, b, c, d]), usize::from(!refused(rules, &[a, b, c, d])));
            }
        }
    }

    #[test]
    fn the_profile_is_short_enough_for_the_kernel() {
        let cubes: usize =
            refusals(&SOCKET_FAMILIES).values().map(|rules| complement(rules).len()).sum();
        // Each costs some ten instructions of the 4096 that a filter may have.
        assert!(cubes < 400, "{cubes} rules");
    }

    #[test]
    fn the_profile() {
        insta::assert_snapshot!(profile().replace("},{", "},\n{"));
    }
}
