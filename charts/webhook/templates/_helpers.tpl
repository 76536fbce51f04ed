{{- define "webhook.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 44 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- /* Objects outside the release's namespace carry it in their name: two releases must not share one. */ -}}
{{- define "webhook.globalName" -}}
{{- printf "tensile-%s-%s" .Release.Namespace (include "webhook.fullname" .) -}}
{{- end -}}

{{- define "webhook.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "webhook.fullname" .) -}}
{{- end -}}

{{- define "webhook.certificateSecret" -}}
{{- .Values.certificate.secretName | default (printf "%s-certificate" (include "webhook.fullname" .)) -}}
{{- end -}}

{{- define "webhook.servingName" -}}
{{- printf "%s.%s.svc" (include "webhook.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- /* Whether it asks the API server for anything: `own` for its certificate, `claims` for the nodes of claims. */ -}}
{{- define "webhook.asks" -}}
{{- if eq .Values.certificate.source "self-managed" }}own {{ end -}}
{{- if ne (index .Values.settings "follow-selected-node" | toString) "false" }}claims{{ end -}}
{{- end -}}

{{- define "webhook.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "webhook.labels" -}}
{{ include "webhook.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tensile
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}
