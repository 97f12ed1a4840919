{{/* The environment of Skillbox's processes. The names are those of docs/configuration.md; a test passes them to the program. */}}

{{/* One variable from a Secret: `include "skillbox.fromSecret" (list "SKILLBOX_SECRET" "name" "key")`. */}}
{{- define "skillbox.fromSecret" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 }}
      key: {{ index . 2 }}
{{- end -}}

{{- define "skillbox.databaseEnv" -}}
{{- $database := .Values.secrets.database -}}
{{ include "skillbox.fromSecret" (list "SKILLBOX_DB_DSN" ($database.name | default (include "skillbox.secretName" .)) $database.key) }}
{{- end -}}

{{/* The variables shared by API and workers: secrets first, then the settings by name. */}}
{{- define "skillbox.sharedEnv" -}}
{{- $store := .Values.secrets.objectStore -}}
{{- $storeSecret := $store.name | default (include "skillbox.secretName" .) -}}
{{ include "skillbox.fromSecret" (list "SKILLBOX_SECRET" (include "skillbox.secretName" .) "SKILLBOX_SECRET") }}
{{ include "skillbox.databaseEnv" . }}
{{ include "skillbox.fromSecret" (list "SKILLBOX_S3_ACCESS_KEY" $storeSecret $store.accessKey) }}
{{ include "skillbox.fromSecret" (list "SKILLBOX_S3_SECRET_KEY" $storeSecret $store.secretKey) }}
{{ include "skillbox.fromSecret" (list "SKILLBOX_METRICS_TOKEN" (include "skillbox.secretName" .) "SKILLBOX_METRICS_TOKEN") }}
      {{- /* Without Prometheus no token is needed. */}}
      optional: {{ not .Values.serviceMonitor.enabled }}
{{- end -}}

{{/* The settings that are not secret, as a map. Values under `settings` override our defaults. */}}
{{- define "skillbox.settings" -}}
{{- $images := .Values.sandbox.images -}}
{{- $settings := dict
  "bind" "0.0.0.0"
  "log_format" "json"
  "api_port" "8080"
  "migrate_on_start" (ternary "false" "true" (and .Values.migrate.enabled (not .Values.postgres.enabled)))
  "drain_timeout" (printf "%ds" (int .Values.drainSeconds))
  "s3_endpoint" (include "skillbox.objectStoreEndpoint" .)
  "s3_region" .Values.objectStore.region
  "s3_bucket_skills" .Values.objectStore.buckets.skills
  "s3_bucket_executions" .Values.objectStore.buckets.executions
  "image_python" $images.python
  "image_node" $images.node
  "image_bash" $images.bash
  "image_allowlist" (concat (list $images.python $images.node $images.bash) .Values.sandbox.allowlist | uniq | join ",")
-}}
{{- with .Values.objectStore.publicUrl }}{{ $_ := set $settings "s3_public_url" . }}{{ end -}}
{{- with include "skillbox.publicUrl" . }}{{ $_ := set $settings "public_url" . }}{{ end -}}
{{/* Helm reads YAML numbers as floats, which would be written as 5.24288e+07. */}}
{{- range $key, $value := .Values.settings -}}
{{- $_ := set $settings $key (ternary (int64 $value | toString) (toString $value) (kindIs "float64" $value)) -}}
{{- end -}}
{{ toJson $settings }}
{{- end -}}

{{- define "skillbox.settingsEnv" -}}
{{- range $key, $value := . }}
- name: SKILLBOX_{{ upper $key }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "skillbox.apiEnv" -}}
{{ include "skillbox.sharedEnv" . }}
{{ include "skillbox.fromSecret" (list "SKILLBOX_BOOTSTRAP_KEY" (include "skillbox.secretName" .) "SKILLBOX_BOOTSTRAP_KEY") }}
{{- include "skillbox.settingsEnv" (merge (dict "role" "api") (include "skillbox.settings" . | fromJson)) }}
{{- with .Values.api.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "skillbox.workerEnv" -}}
{{- $sandbox := .Values.sandbox -}}
{{- $own := dict
  "role" "worker"
  "sandbox" "kubernetes"
  "kube_namespace" (include "skillbox.sandboxNamespace" .)
  "kube_guest_image" (include "skillbox.image" .)
  "kube_schedule_timeout" $sandbox.scheduleTimeout
  "max_concurrent_execs" (.Values.worker.concurrency | int | toString)
-}}
{{- if $sandbox.userNamespaces }}{{ $_ := set $own "kube_user_namespaces" "true" }}{{ end -}}
{{- with $sandbox.runtimeClass }}{{ $_ := set $own "kube_runtime_class" . }}{{ end -}}
{{- with $sandbox.seccompProfile }}{{ $_ := set $own "kube_seccomp_profile" . }}{{ end -}}
{{ include "skillbox.sharedEnv" . }}
{{- include "skillbox.settingsEnv" (merge $own (include "skillbox.settings" . | fromJson)) }}
{{- with .Values.worker.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The environment of the CLI as a client inside the cluster. */}}
{{- define "skillbox.testEnv" -}}
- name: SKILLBOX_SERVER_URL
  value: http://{{ include "skillbox.fullname" . }}-api:8080
{{ include "skillbox.fromSecret" (list "SKILLBOX_API_KEY" (include "skillbox.secretName" .) "SKILLBOX_BOOTSTRAP_KEY") }}
{{- end -}}
