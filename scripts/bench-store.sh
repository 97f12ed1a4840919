#!/usr/bin/env bash
# Measures the throughput of the store on a local Postgres: creates a temporary cluster with default settings (fsync on),
# runs `skillbox bench store` against it and removes it.
#   scripts/bench-store.sh --seconds 60 --rows 0,100000,1000000
# SKILLBOX is the program (default target/release/skillbox), POSTGRES additional settings (shared_buffers=1GB …), and
# DIRECTORY the parent directory of the cluster (default /var/tmp: on disk, not in memory).
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
skillbox=${SKILLBOX:-$here/target/release/skillbox}
if [[ ! -x $skillbox ]]; then
  echo "bench-store: $skillbox is not there; build it with: cargo build --release --bin skillbox" >&2
  exit 1
fi
initdb=$(command -v initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -n 1 || true)
if [[ -z $initdb ]]; then
  echo 'bench-store: no Postgres programs found; scripts/setup-tests.sh postgres installs them' >&2
  exit 1
fi
programs=$(dirname "$(readlink -f "$initdb")")

directory=$(mktemp -d "${DIRECTORY:-/var/tmp}/skillbox-bench-XXXXXX")
# Postgres refuses to run as root.
as_user=()
if ((EUID == 0)); then
  chown nobody "$directory"
  as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
fi
server=
finish() {
  if [[ -n $server ]]; then
    kill -INT "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$directory"
}
trap finish EXIT
trap 'exit 130' INT TERM

cd /
"${as_user[@]}" "$programs/initdb" -D "$directory/data" -U postgres -A trust -E UTF8 --locale=C >"$directory/log"
settings=(-c listen_addresses= -c max_connections=100)
for setting in ${POSTGRES:-}; do settings+=(-c "$setting"); done
"${as_user[@]}" "$programs/postgres" -D "$directory/data" -k "$directory" "${settings[@]}" >>"$directory/log" 2>&1 &
server=$!
for _ in $(seq 200); do
  if "$programs/pg_isready" -q -h "$directory"; then ready=yes && break; fi
  sleep 0.1
done
if [[ -z ${ready:-} ]]; then
  cat "$directory/log" >&2
  exit 1
fi
"$skillbox" bench store --db-dsn "postgres://postgres@${directory//\//%2F}/postgres" "$@"
