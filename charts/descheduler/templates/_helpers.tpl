{{- define "descheduler.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 39 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- /* Objects outside the release's namespace carry it in their name: two releases must not share one. */ -}}
{{- define "descheduler.globalName" -}}
{{- printf "tensile-%s-%s" .Release.Namespace (include "descheduler.fullname" .) -}}
{{- end -}}

{{- define "descheduler.namespace" -}}
{{- .Values.exclusionsNamespace | default .Release.Namespace -}}
{{- end -}}

{{- define "descheduler.canaryNamespace" -}}
{{- .Values.canary.namespace | default (printf "%s-canary" (printf "%s-%s" .Release.Namespace (include "descheduler.fullname" .) | trunc 56 | trimSuffix "-")) -}}
{{- end -}}

{{- define "descheduler.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "descheduler.fullname" .) -}}
{{- end -}}

{{- define "descheduler.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "descheduler.labels" -}}
{{ include "descheduler.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tensile
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}
