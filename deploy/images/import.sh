#!/usr/bin/env bash
# Imports a root file system of build-rootfs.sh into an engine as an image, configured like the Dockerfiles in this directory:
#   deploy/images/import.sh python python.tar skillbox/python:1
# DOCKER_HOST selects the engine.
set -euo pipefail

runtime=${1-} archive=${2-} tag=${3-}
case $runtime in
  python) command='["python3"]' ;;
  node) command='["node"]' ;;
  bash) command='["bash"]' ;;
  *) echo 'usage: import.sh <python|node|bash> <rootfs.tar> <image:tag>' >&2; exit 2 ;;
esac
docker import \
  --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
  --change 'ENV LANG=C.UTF-8' \
  --change 'USER 65534:65534' \
  --change 'WORKDIR /' \
  --change "CMD $command" \
  --change "LABEL org.opencontainers.image.title=skillbox-$runtime" \
  "$archive" "$tag"
