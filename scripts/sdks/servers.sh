# The servers for the tests of the SDKs: an embedded Skillbox, and a misbehaving stand-in. Sourced by scripts/test-sdks.sh.

start_servers() {
  export SKILLBOX_TEST_KEY=sk-conformance-0123456789abcdef
  # Every method of every SDK is called with a wrong key, which exceeds the default limit of failures per address and minute.
  SKILLBOX_BOOTSTRAP_KEY=$SKILLBOX_TEST_KEY SKILLBOX_DATA_DIR=$work/data SKILLBOX_API_PORT=0 SKILLBOX_MAX_AUTH_FAILURES=10000 \
    "$binary" serve >"$work/serve.log" 2>&1 &
  pids+=($!)
  # The stand-in exits when this pipe is closed, so it also exits when this script is killed.
  exec {standin_life}> >(cd sdks/conformance && exec python3 -m standin >"$work/standin.log" 2>&1)
  SKILLBOX_TEST_URL=$(await_address "$work/serve.log" 'serves on')
  SKILLBOX_TEST_STANDIN=$(await_address "$work/standin.log" '')
  export SKILLBOX_TEST_URL SKILLBOX_TEST_STANDIN
  echo "test-sdks: live server at $SKILLBOX_TEST_URL, stand-in at $SKILLBOX_TEST_STANDIN"
}

# Waits for a line with $2 and an address in the file $1, and prints the address.
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

# Runs the command after $1, unless it has already run with the same content of the files $1 (separated by spaces).
once_for() {
  local stamp sum
  sum=$(cat $1 | cksum | tr -d ' ')
  stamp=$cache/$2-$sum
  [[ -e $stamp ]] && return
  "${@:3}"
  touch "$stamp"
}

# Runs an example, the command after $1, against the live server. It must succeed and print $1, which it prints only if its run succeeds.
example() {
  local said
  said=$(SKILLBOX_SERVER_URL=$SKILLBOX_TEST_URL SKILLBOX_API_KEY=$SKILLBOX_TEST_KEY "${@:2}")
  [[ $said == *"$1"* ]] || { printf 'test-sdks: %s did not print %s but:\n%s\n' "${*:2}" "$1" "$said" >&2; return 1; }
}

# Tests the examples and snippets that need no SDK: curl, and the publishing pipeline.
test_shell() {
  local success='"status":"success"'
  example "$success" examples/clients/curl.sh
  local snippet
  snippet=$(sed -n '/^```sh$/,/^```$/p' README.md | sed -n '/^curl /,/^```$/p' | sed '/^```$/d' | sed "s#http://127.0.0.1:8080#$SKILLBOX_TEST_URL#")
  [[ -n $snippet ]] || { echo 'test-sdks: README.md has no snippet for curl' >&2; return 1; }
  example "$success" bash -ec "$snippet"
  # Run the commands of the GitLab script in examples/ci, in a directory with the layout of such a repository.
  mkdir "$work/pipeline"
  cp -r examples/skills "$work/pipeline/skills"
  # The scanner must report this skill, which stops the pipeline, so it is removed.
  rm -r "$work/pipeline/skills/malicious"
  local commands
  commands=$(sed -n 's/^    - \(for skill\|skillbox\)/\1/p' examples/ci/gitlab-ci.yml)
  mkdir "$work/bin"
  ln -s "$(realpath "$binary")" "$work/bin/skillbox"
  (cd "$work/pipeline" && PATH=$work/bin:$PATH example 'json-diff@1.0.0 published' bash -ec "$commands" 2>&1)
  python3 - examples/ci/github-actions.yml examples/ci/gitlab-ci.yml <<'END'
import sys

# Both pipelines must run the same commands.
texts = [open(path).read() for path in sys.argv[1:]]
for command in ("skillbox skill push --if-changed skills/*/", 'for skill in skills/*/; do skillbox skill lint "$skill"; done'):
    assert all(command in text for text in texts), command
END
}
