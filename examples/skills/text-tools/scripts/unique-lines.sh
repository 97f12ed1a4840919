#!/usr/bin/env bash
# Removes repeated lines, keeping the first of each in its place.
set -euo pipefail

count=false
case ${1-} in
  '') ;;
  --count) count=true ;;
  *)
    echo "unique-lines.sh: unknown argument $1 (only --count)" >&2
    exit 2
    ;;
esac

declare -A seen=()
order=()
while IFS= read -r line || [[ -n $line ]]; do
  # The prefix makes an empty line a valid key.
  [[ -n ${seen["=$line"]-} ]] || order+=("$line")
  seen["=$line"]=$((${seen["=$line"]-0} + 1))
done

for line in "${order[@]}"; do
  if $count; then printf '%s\t%s\n' "${seen["=$line"]}" "$line"; else printf '%s\n' "$line"; fi
done
