{{- define "virtual-node.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 39 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- define "virtual-node.nodeName" -}}
{{- .Values.nodeName | default .Release.Name -}}
{{- end -}}

{{- define "virtual-node.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "virtual-node.fullname" .) -}}
{{- end -}}

{{- define "virtual-node.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "virtual-node.labels" -}}
{{ include "virtual-node.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tensile
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}
