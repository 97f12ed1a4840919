# The servers that tests of SDKs talk to: an embedded Skillbox, and a stand-in that misbehaves. Sourced by scripts/test-sdks.sh.

start_servers() {
  export SKILLBOX_TEST_KEY=sk-conformance-0123456789abcdef
  # Every method of every SDK is tried with a wrong key: far more failures than the default allows one address in a minute.
  SKILLBOX_BOOTSTRAP_KEY=$SKILLBOX_TEST_KEY SKILLBOX_DATA_DIR=$work/data SKILLBOX_API_PORT=0 SKILLBOX_MAX_AUTH_FAILURES=10000 \
    "$binary" serve >"$work/serve.log" 2>&1 &
  pids+=($!)
  # It ends when this pipe is closed, so also when this script is killed.
  exec {standin_life}> >(cd sdks/conformance && exec python3 -m standin >"$work/standin.log" 2>&1)
  SKILLBOX_TEST_URL=$(await_address "$work/serve.log" 'serves on')
  SKILLBOX_TEST_STANDIN=$(await_address "$work/standin.log" '')
  export SKILLBOX_TEST_URL SKILLBOX_TEST_STANDIN
  echo "test-sdks: live server at $SKILLBOX_TEST_URL, stand-in at $SKILLBOX_TEST_STANDIN"
}

# The address in the line of the file $1 that says $2, once it is there.
await_address() {
  local line
  for _ in {1..300}; do
    line=$(grep -o "$2.*http://127.0.0.1:[0-9]*" "$1" 2>/dev/null | head -n 1) && { echo "http://${line##*http://}"; return; }
    sleep 0.1
  done
  echo 'test-sdks: a server did not start:' >&2
  cat "$1" >&2
  return 1
}

# Runs the command after $1, unless it was run before with the same files $1 (separated by blanks).
once_for() {
  local stamp sum
  sum=$(cat $1 | cksum | tr -d ' ')
  stamp=$cache/$2-$sum
  [[ -e $stamp ]] && return
  "${@:3}"
  touch "$stamp"
}

# Runs an example, the command after $1, against the live server; it must succeed and say $1, which it says only when its run succeeds.
example() {
  local said
  said=$(SKILLBOX_SERVER_URL=$SKILLBOX_TEST_URL SKILLBOX_API_KEY=$SKILLBOX_TEST_KEY "${@:2}")
  [[ $said == *"$1"* ]] || { printf 'test-sdks: %s did not say %s but:\n%s\n' "${*:2}" "$1" "$said" >&2; return 1; }
}

# The examples and snippets that need no SDK: curl, and what a pipeline runs to publish.
test_shell() {
  local success='"status":"success"'
  example "$success" examples/clients/curl.sh
  local snippet
  snippet=$(sed -n '/^```sh$/,/^```$/p' README.md | sed -n '/^curl /,/^```$/p' | sed '/^```$/d' | sed "s#http://127.0.0.1:8080#$SKILLBOX_TEST_URL#")
  [[ -n $snippet ]] || { echo 'test-sdks: README.md has no snippet for curl' >&2; return 1; }
  example "$success" bash -ec "$snippet"
  # The commands of examples/ci are those of GitLab's script, in a place that looks like such a repository.
  mkdir "$work/pipeline"
  cp -r examples/skills "$work/pipeline/skills"
  # The scanner finds it, as it should, and a pipeline stops there.
  rm -r "$work/pipeline/skills/malicious"
  local commands
  commands=$(sed -n 's/^    - \(for skill\|skillbox\)/\1/p' examples/ci/gitlab-ci.yml)
  mkdir "$work/bin"
  ln -s "$(realpath "$binary")" "$work/bin/skillbox"
  (cd "$work/pipeline" && PATH=$work/bin:$PATH example 'json-diff@1.0.0 published' bash -ec "$commands" 2>&1)
  python3 - examples/ci/github-actions.yml examples/ci/gitlab-ci.yml <<'END'
import sys

# Both say the same to the program.
texts = [open(path).read() for path in sys.argv[1:]]
for command in ("skillbox skill push --if-changed skills/*/", 'for skill in skills/*/; do skillbox skill lint "$skill"; done'):
    assert all(command in text for text in texts), command
END
}
