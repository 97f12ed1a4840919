#!/usr/bin/env bash
# Counts the levels and the most frequent errors of a log.
set -euo pipefail
export LC_ALL=C.UTF-8

top=5
# A JSON parser would be too much for one number; anything else keeps the default.
if [[ ${SANDBOX_INPUT-} =~ \"top\"[[:space:]]*:[[:space:]]*([1-9][0-9]?)[[:space:]]*[,}] ]]; then
  top=${BASH_REMATCH[1]}
fi

# JSON string of $1; control characters other than tab were taken out when the line was read.
json() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//$'\t'/\\t}"
}

log=/tmp/log-report.input
cat >"$log"
[[ -s $log ]] || cat "$(dirname "$0")/sample.log" >"$log"

declare -A levels=() messages=()
lines=0 first='' last=''
while read -r when level rest || [[ -n $when ]]; do
  [[ -n $level ]] || continue
  lines=$((lines + 1))
  first=${first:-$when} last=$when
  levels[$level]=$((${levels[$level]-0} + 1))
  if [[ $level == ERROR ]]; then
    message=${rest//[0-9]/#}
    messages[$message]=$((${messages[$message]-0} + 1))
  fi
done < <(tr -d '\000-\010\013-\037' <"$log")

# "count<tab>message", most frequent first.
ranking=$(for message in "${!messages[@]}"; do printf '%s\t%s\n' "${messages[$message]}" "$message"; done |
  sort -k1,1nr -k2 | head -n "$top")
names=$(for level in "${!levels[@]}"; do printf '%s\n' "$level"; done | sort)

{
  printf '# Log report\n\n%s lines from %s to %s\n\n' "$lines" "${first:-nothing}" "${last:-nothing}"
  for level in $names; do printf -- '- %s: %s\n' "$level" "${levels[$level]}"; done
  printf '\n## Most frequent errors\n\n'
  while IFS=$'\t' read -r count message; do
    [[ -z $count ]] || printf -- '- %s× %s\n' "$count" "$message"
  done <<<"$ranking"
} >"${SANDBOX_FILES_DIR}report.md"

{
  printf '{"lines":%s,"first":%s,"last":%s,"levels":{' "$lines" "$(json "$first")" "$(json "$last")"
  comma=''
  for level in $names; do
    printf '%s%s:%s' "$comma" "$(json "$level")" "${levels[$level]}"
    comma=,
  done
  printf '},"errors":['
  comma=''
  while IFS=$'\t' read -r count message; do
    [[ -z $count ]] && continue
    printf '%s{"message":%s,"count":%s}' "$comma" "$(json "$message")" "$count"
    comma=,
  done <<<"$ranking"
  printf ']}\n'
} >"$SANDBOX_OUTPUT"

echo "read $lines lines"
