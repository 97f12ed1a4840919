#!/bin/sh
# Creates the buckets of docker-compose.yml and one MinIO user each for the API and the workers, with the permissions in api.json and
# worker.json. Runs before both at each start and is idempotent. `mc` reads the server's address and root credentials from MC_HOST_objects.
set -eu
# The image contains little more than a shell and mc.
cd "${0%/*}"

# mc fails if the policy is already attached to the user.
attach() {
  said=$(mc admin policy attach objects "$1" --user "$2" 2>&1) && return
  case $said in
    *'already in effect'*) ;;
    *) echo "objects: $said" >&2; return 1 ;;
  esac
}

mc mb --ignore-existing objects/skills objects/executions
mc admin policy create objects skillbox-api api.json
mc admin policy create objects skillbox-worker worker.json
# Read from standard input, so that secrets do not appear in the process list.
printf '%s\n%s\n' "$S3_ACCESS_KEY" "$S3_SECRET_KEY" | mc admin user add objects
printf '%s\n%s\n' "$S3_WORKER_ACCESS_KEY" "$S3_WORKER_SECRET_KEY" | mc admin user add objects
attach skillbox-api "$S3_ACCESS_KEY"
attach skillbox-worker "$S3_WORKER_ACCESS_KEY"
