{{- /* Renders .template for each virtual node of the release: for the one that the values describe, or for each of `nodes`,
with the values that are its own. .Name is its name there. Nothing in the lower cluster. */ -}}
{{- define "virtual-node.each" -}}
{{- $root := .root -}}
{{- $template := .template -}}
{{- if eq $root.Values.cluster "upper" }}
{{- range $name, $own := $root.Values.nodes | default (dict "" dict) }}
{{- $values := mergeOverwrite (deepCopy $root.Values) ($own | default dict) }}
---
{{ include $template (dict "Name" $name "Values" $values "Chart" $root.Chart "Release" $root.Release "Files" $root.Files) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "virtual-node.release" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 39 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- define "virtual-node.fullname" -}}
{{- if .Name -}}
{{- printf "%s-%s" (include "virtual-node.release" . | trunc 31 | trimSuffix "-") .Name -}}
{{- else -}}
{{- include "virtual-node.release" . -}}
{{- end -}}
{{- end -}}

{{- define "virtual-node.nodeName" -}}
{{- .Values.nodeName | default .Name | default .Release.Name -}}
{{- end -}}

{{- define "virtual-node.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "virtual-node.fullname" .) -}}
{{- end -}}

{{- define "virtual-node.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- with .Name }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "virtual-node.labels" -}}
{{ include "virtual-node.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tensile
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The resources whose rules are of no use: those of object controllers that the settings turn off. */ -}}
{{- define "virtual-node.unused" -}}
{{- $controllers := "PVControllers ServiceControllers" -}}
{{- if hasKey .Values.settings "enable-controllers" -}}
{{- $controllers = toString (index .Values.settings "enable-controllers") -}}
{{- end -}}
{{- $unused := list -}}
{{- if not (contains "PVControllers" $controllers) -}}
{{- $unused = concat $unused (list "persistentvolumeclaims" "persistentvolumeclaims/status" "persistentvolumes" "storageclasses") -}}
{{- end -}}
{{- if not (contains "ServiceControllers" $controllers) -}}
{{- $unused = concat $unused (list "services" "services/status" "endpointslices") -}}
{{- end -}}
{{- toYaml $unused -}}
{{- end -}}
