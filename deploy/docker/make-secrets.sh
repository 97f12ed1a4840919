#!/usr/bin/env bash
# Writes the secrets of docker-compose.yml to .env beside it: random, readable by you alone, made once.
#   deploy/docker/make-secrets.sh [file]
set -euo pipefail
umask 077

file=${1:-$(dirname "$0")/../../.env}
socket=${DOCKER_SOCKET:-/var/run/docker.sock}

random() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

# The proxy runs as nobody in particular and may use the socket by its group.
if [[ -S $socket ]]; then
  group=$(stat --format %g "$socket")
else
  echo "make-secrets: no Docker socket at $socket; put the number of its group into $file as DOCKER_GID" >&2
  group=
fi

# noclobber: what is there already is somebody's database password.
set -o noclobber
cat >"$file" <<ENV || { echo "make-secrets: $file is left as it is" >&2; exit 1; }
# Made by deploy/docker/make-secrets.sh. Keep a copy where backups of the database are kept: they belong together.
SKILLBOX_SECRET=$(random 32)
SKILLBOX_BOOTSTRAP_KEY=sk-$(random 32)
POSTGRES_PASSWORD=$(random 24)
S3_ACCESS_KEY=skillbox-$(random 4)
S3_SECRET_KEY=$(random 24)
DOCKER_GID=$group
ENV
echo "make-secrets: wrote $file"
