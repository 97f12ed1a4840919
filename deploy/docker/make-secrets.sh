#!/usr/bin/env bash
# Writes random secrets for docker-compose.yml to .env next to it, readable only by you. Existing secrets are kept; secrets that are
# missing in a file of an older version are added.
#   deploy/docker/make-secrets.sh [file]
set -euo pipefail
umask 077

file=${1:-$(dirname "$0")/../../.env}
socket=${DOCKER_SOCKET:-/var/run/docker.sock}

random() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

# The proxy runs as an unprivileged user and can use the socket through its group.
if [[ -S $socket ]]; then
  group=$(stat --format %g "$socket")
else
  echo "make-secrets: no Docker socket at $socket; put the number of its group into $file as DOCKER_GID" >&2
  group=
fi

touch "$file"
added=0
# Appends a secret unless the file contains it: an existing one may already be the password of a database.
add() {
  ! grep --quiet "^$1=" "$file" || return 0
  echo "$1=$2" >>"$file"
  added=$((added + 1))
}

[[ -s $file ]] || cat >"$file" <<'TEXT'
# Made by deploy/docker/make-secrets.sh. Keep a copy where backups of the database are kept: they belong together.
TEXT
[[ -z $(tail --bytes=1 "$file") ]] || echo >>"$file"
add SKILLBOX_SECRET "$(random 32)"
add SKILLBOX_BOOTSTRAP_KEY "sk-$(random 32)"
add POSTGRES_PASSWORD "$(random 24)"
add MINIO_ROOT_USER "root-$(random 4)"
add MINIO_ROOT_PASSWORD "$(random 24)"
add S3_ACCESS_KEY "skillbox-$(random 4)"
add S3_SECRET_KEY "$(random 24)"
add S3_WORKER_ACCESS_KEY "worker-$(random 4)"
add S3_WORKER_SECRET_KEY "$(random 24)"
add DOCKER_GID "$group"
((added > 0)) || { echo "make-secrets: $file has every secret and is left as it is" >&2; exit 1; }
echo "make-secrets: wrote $added secrets to $file"
