#!/usr/bin/env bash
# Publishes a skill, runs it, and saves a file that a run left, with nothing but curl.
set -euo pipefail
server=${SKILLBOX_SERVER_URL:-http://localhost:8080}
auth="Authorization: Bearer $SKILLBOX_API_KEY"
cd "$(dirname "$0")/../skills"

# A directory goes as one part a file, each with its relative path as name.
curl -sSf "$server/v1/skills" -H "$auth" -F 'files[]=@svg-chart/SKILL.md;filename=SKILL.md' -F 'files[]=@svg-chart/main.py;filename=main.py'
echo

result=$(curl -sSf "$server/v1/executions" -H "$auth" -H 'Content-Type: application/json' \
  -d '{"skill":"svg-chart","input":{"title":"Sales","points":[{"label":"Q1","value":3},{"label":"Q2","value":5}]}}')
echo "$result"

# The URL of the files needs no key and expires.
files=$(mktemp -d)
curl -sSf "$(grep -o '"files_url":"[^"]*' <<<"$result" | cut -d'"' -f4)" | tar -xzf - -C "$files"
ls "$files"
rm -r "$files"
