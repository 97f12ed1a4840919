#!/bin/sh
# Makes the buckets of docker-compose.yml and a user of MinIO for the API and for workers, with the rights in api.json and worker.json beside
# this file. Runs at each start, before both, and changes nothing that is already so. `mc` finds the server and its root user in MC_HOST_objects.
set -eu
# The image has a shell and mc, and little else.
cd "${0%/*}"

# A policy that the user has already is an error to mc.
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
# From standard input, so that no secret stands in the list of processes.
printf '%s\n%s\n' "$S3_ACCESS_KEY" "$S3_SECRET_KEY" | mc admin user add objects
printf '%s\n%s\n' "$S3_WORKER_ACCESS_KEY" "$S3_WORKER_SECRET_KEY" | mc admin user add objects
attach skillbox-api "$S3_ACCESS_KEY"
attach skillbox-worker "$S3_WORKER_ACCESS_KEY"
