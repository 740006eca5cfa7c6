{{- define "tallystick.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tallystick.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tallystick.labels" -}}
{{ include "tallystick.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tallystick.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "tallystick.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "tallystick.bootstrap" -}}
{{ printf "%s.%s.svc:%v" (include "tallystick.name" .) .Release.Namespace .Values.listener.port }}
{{- end }}

{{- define "tallystick.advertised" -}}
{{- $pod := printf "$(POD_NAME).%s-pods.%s.svc:%v" (include "tallystick.name" .) .Release.Namespace .Values.listener.port }}
{{- .Values.listener.advertised | default (ternary $pod (include "tallystick.bootstrap" .) (gt (int .Values.nodes) 1)) }}
{{- end }}

{{- define "tallystick.login" -}}
{{- $module := ternary "plain.PlainLoginModule" "scram.ScramLoginModule" (eq . "PLAIN") -}}
org.apache.kafka.common.security.{{ $module }} required username="$(NODES_USERNAME)" password="$(NODES_PASSWORD)"{{ if eq . "PLAIN" }} user_$(NODES_USERNAME)="$(NODES_PASSWORD)"{{ end }};
{{- end }}
