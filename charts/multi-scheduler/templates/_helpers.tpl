{{- define "multi-scheduler.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 35 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- /* Objects outside the release's namespace carry it in their name: two releases must not share one. */ -}}
{{- define "multi-scheduler.globalName" -}}
{{- printf "tensile-%s-%s" .Release.Namespace (include "multi-scheduler.fullname" .) -}}
{{- end -}}

{{- define "multi-scheduler.exclusionsNamespace" -}}
{{- .Values.exclusionsNamespace | default .Release.Namespace -}}
{{- end -}}

{{- define "multi-scheduler.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "multi-scheduler.fullname" .) -}}
{{- end -}}

{{- define "multi-scheduler.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "multi-scheduler.labels" -}}
{{ include "multi-scheduler.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tensile
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}


{{- define "multi-scheduler.certificateSecret" -}}
{{- .Values.certificate.secretName | default (printf "%s-certificate" (include "multi-scheduler.fullname" .)) -}}
{{- end -}}

{{- define "multi-scheduler.servingName" -}}
{{- printf "%s.%s.svc" (include "multi-scheduler.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- /* The kube-scheduler beside the extender. */ -}}
{{- define "multi-scheduler.scheduler" -}}
- name: kube-scheduler
  image: "{{ .Values.scheduler.image.repository }}:{{ .Values.scheduler.image.tag | default .Capabilities.KubeVersion.Version }}"
  imagePullPolicy: {{ .Values.scheduler.image.pullPolicy }}
  command:
  - kube-scheduler
  - --config=/etc/kubernetes/scheduler.yaml
  - --secure-port={{ .Values.scheduler.port }}
  - --cert-dir=/tmp
  {{- with .Values.env }}
  env: {{- toYaml . | nindent 2 }}
  {{- end }}
  ports:
  - name: scheduler
    containerPort: {{ .Values.scheduler.port }}
  livenessProbe:
    httpGet:
      path: /healthz
      port: scheduler
      scheme: HTTPS
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  {{- with .Values.scheduler.resources }}
  resources: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
  volumeMounts:
  - name: scheduler
    mountPath: /etc/kubernetes
    readOnly: true
  - name: certificate
    mountPath: /etc/tensile-certificate
    readOnly: true
  - name: scratch
    mountPath: /tmp
{{- end -}}
