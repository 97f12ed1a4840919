{{/* Settings of all pods: the restricted Pod Security Standard, and scheduling. */}}

{{/* `include "skillbox.podSecurity" 65532` */}}
{{- define "skillbox.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "skillbox.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* A container of our program, up to its arguments: `include "skillbox.container" (list . "api")`. */}}
{{- define "skillbox.container" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
image: {{ include "skillbox.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  {{- include "skillbox.containerSecurity" . | nindent 2 }}
{{- end -}}

{{- define "skillbox.probes" -}}
startupProbe:
  # Nothing answers before the start is done. It may wait for the database and, in a worker, for a first sandbox.
  httpGet: { path: /health, port: http }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /health, port: http }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /ready, port: http }
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 3
{{- end -}}

{{/* Scheduling of a pod: `include "skillbox.placement" (list . "api")`, a component with values of that name. */}}
{{- define "skillbox.placement" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $keys := dict "hostname" "kubernetes.io/hostname" "zone" "topology.kubernetes.io/zone" -}}
{{- $constraints := list -}}
{{- range $word := list "zone" "hostname" -}}
{{- $when := index $root.Values.topologySpread $word -}}
{{- if ne $when "none" -}}
{{- $selector := dict "matchLabels" (include "skillbox.selector" (list $root $component) | fromYaml) -}}
{{- $constraints = append $constraints (dict "maxSkew" 1 "topologyKey" (index $keys $word) "whenUnsatisfiable" $when "labelSelector" $selector) -}}
{{- end -}}
{{- end -}}
{{- $placement := dict -}}
{{- with $constraints }}{{ $_ := set $placement "topologySpreadConstraints" . }}{{ end -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "priorityClassName" -}}
{{- with index $root.Values $component $field }}{{ $_ := set $placement $field . }}{{ end -}}
{{- end -}}
{{- with $root.Values.image.pullSecrets -}}
{{- $names := list -}}
{{- range . }}{{ $names = append $names (dict "name" .) }}{{ end -}}
{{- $_ := set $placement "imagePullSecrets" $names -}}
{{- end -}}
{{- with $placement }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- define "skillbox.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}
