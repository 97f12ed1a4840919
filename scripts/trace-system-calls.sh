#!/usr/bin/env bash
# Writes crates/sandbox/tests/fixtures/system-calls.txt: every system call made by a guest or a script in a native sandbox
# during the tests of crates/sandbox, with the first test or fixture that makes it. Needs strace and root.
#
# A test there fails if crates/sandbox/src/seccomp/calls.rs allows a call that no test makes. Remove such a call from the list,
# or add a test that needs it to `tests/it/ordinary_calls.rs`.
set -euo pipefail
cd "$(dirname "$0")/.."
list=$PWD/crates/sandbox/tests/fixtures/system-calls.txt
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

binary=$(cargo test -p sandbox --test it --no-run --message-format=json 2>/dev/null |
  python3 -c 'import json, sys; print([m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable") and m["target"]["name"] == "it"][-1])')
cd crates/sandbox

# $1 is the name for the list, the other arguments select the tests. Calls that the seccomp filters block are not recorded.
trace() {
  local user=$1
  shift
  strace --follow-forks --decode-pids=pidns --quiet=all --output="$work/trace" "$binary" "$@" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
  python3 - "$user" "$work/trace" <<'PYTHON' >>"$work/all"
import re, sys
user, path = sys.argv[1:]
inside, calls = set(), set()
LINE = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed)(.*)")
CHILD = re.compile(r"= \d+ /\* (\d+) in strace's PID NS \*/")
for line in open(path, errors="replace"):
    found = LINE.match(line)
    if not found:
        continue
    pid, call, rest = found.groups()
    if call == "execveat" and '"guest"' in rest:
        # From here on the process is a guest, and its children are scripts.
        inside.add(pid)
        calls.add(call)
    elif pid in inside:
        if not any(end in rest for end in ("ENOSYS", "= -1 EPERM", "<unfinished")):
            calls.add(call)
        child = CHILD.search(rest)
        if child and call in ("clone", "fork", "vfork"):
            inside.add(child.group(1))
print("\n".join(f"{call} {user}" for call in sorted(calls)))
PYTHON
}

: >"$work/all"
# Examples and ordinary scripts come first, so that an attack is only named for calls that no other test makes.
for test in ordinary_calls::native contract::native outcomes::native connect_attempts::native; do trace "$test" "$test"; done
for fixture in tests/fixtures/hostile/*/; do
  name=$(basename "$fixture")
  SKILLBOX_FIXTURE=$name trace "hostile/$name" hostile::native
done
{
  echo "# Written by scripts/trace-system-calls.sh: each call that guests and scripts make, and the first that was seen to."
  awk '!seen[$1]++' "$work/all" | sort
} >"$list"
echo "$(grep --count --invert-match '^#' "$list") calls" >&2
