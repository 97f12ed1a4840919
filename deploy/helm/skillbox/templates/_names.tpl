{{/* Names, labels and images, independent of the purpose of an object. */}}

{{- define "skillbox.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* The labels for selectors: `include "skillbox.selector" (list . "api")`. */}}
{{- define "skillbox.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* All labels of an object: `include "skillbox.labels" (list . "api")`. */}}
{{- define "skillbox.labels" -}}
{{- $root := index . 0 -}}
{{ include "skillbox.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: skillbox
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{/* The pods of several components: `include "skillbox.pods" (list . (list "api" "worker"))`. */}}
{{- define "skillbox.pods" -}}
{{- $root := index . 0 -}}
matchLabels:
  app.kubernetes.io/name: {{ $root.Chart.Name }}
  app.kubernetes.io/instance: {{ $root.Release.Name }}
matchExpressions:
  - key: app.kubernetes.io/component
    operator: In
    values: {{ index . 1 | toJson }}
{{- end -}}

{{- define "skillbox.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "skillbox.sandboxNamespace" -}}
{{ .Values.sandbox.namespace.name | default (printf "%s-sandboxes" (include "skillbox.fullname" .)) }}
{{- end -}}

{{/* The default Secret, for all values without a Secret of their own: the user's or the chart's. */}}
{{- define "skillbox.secretName" -}}
{{ .Values.secrets.existing | default (include "skillbox.fullname" .) }}
{{- end -}}

{{- define "skillbox.objectStoreEndpoint" -}}
{{- if .Values.minio.enabled -}}
http://{{ include "skillbox.fullname" . }}-minio:9000
{{- else -}}
{{ .Values.objectStore.endpoint }}
{{- end -}}
{{- end -}}

{{- define "skillbox.publicUrl" -}}
{{- if .Values.publicUrl -}}
{{ .Values.publicUrl }}
{{- else if .Values.ingress.enabled -}}
{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- end -}}
{{- end -}}
