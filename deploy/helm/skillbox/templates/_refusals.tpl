{{/* Rejects combinations of values that contradict each other. Single values are validated by values.schema.json. */}}

{{/* Non-empty if the chart creates the Secret itself. */}}
{{- define "skillbox.ownSecret" -}}
{{- if not .Values.secrets.existing }}{{ if or .Values.secrets.generate .Values.secrets.values }}yes{{ end }}{{ end -}}
{{- end -}}

{{- define "skillbox.refusals" -}}
{{- $secrets := .Values.secrets -}}
{{- if and $secrets.existing (or $secrets.generate $secrets.values) -}}
{{- fail "secrets.existing names your Secret, so secrets.generate and secrets.values must stay empty" -}}
{{- end -}}
{{- if not (or $secrets.existing (include "skillbox.ownSecret" .)) -}}
{{- fail "there is no Secret: name yours in secrets.existing (docs/kubernetes.md lists its keys), or set secrets.generate=true for a trial" -}}
{{- end -}}
{{- if and .Values.minio.enabled .Values.objectStore.endpoint -}}
{{- fail "minio.enabled and objectStore.endpoint are two object stores: choose one" -}}
{{- end -}}
{{- if not (or .Values.minio.enabled .Values.objectStore.endpoint) -}}
{{- fail "there is no object store: set objectStore.endpoint, or minio.enabled=true for a trial" -}}
{{- end -}}
{{- if and .Values.postgres.enabled $secrets.database.name -}}
{{- fail "postgres.enabled and secrets.database.name are two databases: choose one" -}}
{{- end -}}
{{- if and .Values.minio.enabled $secrets.objectStore.name -}}
{{- fail "minio.enabled and secrets.objectStore.name are two object stores: choose one" -}}
{{- end -}}
{{- if include "skillbox.ownSecret" . -}}
{{- if not (or .Values.postgres.enabled $secrets.database.name $secrets.values.SKILLBOX_DB_DSN) -}}
{{- fail "there is no database: set secrets.database.name, secrets.values.SKILLBOX_DB_DSN, or postgres.enabled=true for a trial" -}}
{{- end -}}
{{- if and .Values.postgres.enabled $secrets.values.SKILLBOX_DB_DSN -}}
{{- fail "postgres.enabled and secrets.values.SKILLBOX_DB_DSN are two databases: choose one" -}}
{{- end -}}
{{- end -}}
{{- if .Values.networkPolicy.enabled -}}
{{- if not (or .Values.postgres.enabled .Values.networkPolicy.database) -}}
{{- fail "networkPolicy.database is empty: name the addresses of your database as peers of a NetworkPolicy, for instance [{ipBlock: {cidr: 10.20.0.5/32}}]" -}}
{{- end -}}
{{- if not (or .Values.minio.enabled .Values.networkPolicy.objectStore) -}}
{{- fail "networkPolicy.objectStore is empty: name the addresses of your object store as peers of a NetworkPolicy, for instance [{ipBlock: {cidr: 10.20.0.6/32}}]" -}}
{{- end -}}
{{- range $name := list "database" "objectStore" -}}
{{- range index $.Values.networkPolicy $name -}}
{{- with .ipBlock -}}
{{- if and (hasSuffix "/0" .cidr) (not .except) -}}
{{- fail (printf "networkPolicy.%s has the block %s, which opens private addresses too, past the rule for webhooks (networkPolicy.outside): name a smaller block, or what it excludes in except" $name .cidr) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host" -}}
{{- end -}}
{{- range $name := list "api" "worker" -}}
{{- with index $.Values $name -}}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- fail (printf "%s.autoscaling.minReplicas is above maxReplicas" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq (include "skillbox.sandboxNamespace" .) .Release.Namespace -}}
{{- fail "sandbox.namespace.name is the namespace of the release: sandboxes must have one of their own" -}}
{{- end -}}
{{- end -}}
