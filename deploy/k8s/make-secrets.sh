#!/usr/bin/env bash
# Prints a Secret with random values for deploy/k8s/overlays/dev. Use `create`, which does not overwrite an existing Secret:
#   deploy/k8s/make-secrets.sh | kubectl create --filename -
set -euo pipefail

random() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

password=$(random 24)
cat <<SECRET
apiVersion: v1
kind: Secret
metadata:
  name: skillbox
  namespace: skillbox
type: Opaque
stringData:
  SKILLBOX_SECRET: "$(random 32)"
  SKILLBOX_BOOTSTRAP_KEY: sk-$(random 32)
  SKILLBOX_METRICS_TOKEN: "$(random 32)"
  SKILLBOX_DB_DSN: postgres://skillbox:$password@skillbox-postgres:5432/skillbox
  SKILLBOX_S3_ACCESS_KEY: skillbox-$(random 4)
  SKILLBOX_S3_SECRET_KEY: "$(random 24)"
  POSTGRES_PASSWORD: "$password"
SECRET
