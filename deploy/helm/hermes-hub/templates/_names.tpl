{{- define "hermes-hub.labels" -}}
app.kubernetes.io/name: hermes-hub
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "hermes-hub.selector" -}}
app.kubernetes.io/name: hermes-hub
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "hermes-hub.from" -}}
valueFrom:
  secretKeyRef:
    name: {{ .secret }}
    key: {{ .key }}
{{- end }}
