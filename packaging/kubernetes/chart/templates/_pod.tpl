{{- define "streamwarden.pod" -}}
serviceAccountName: {{ .root.Values.serviceAccounts.airflow }}
securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
initContainers:
  - name: {{ ternary "migrate" "wait" .migrates }}
    {{- include "streamwarden.container" .root | nindent 4 }}
    resources: {{ toJson (index .root.Values.resources "dag-processor") }}
    command: {{ ternary (list "airflow" "db" "migrate") (list "airflow" "db" "check-migrations" "--migration-wait-timeout" "600") .migrates | toJson }}
containers:
  - name: {{ .name }}
    {{- include "streamwarden.container" .root | nindent 4 }}
    resources: {{ toJson (index .root.Values.resources .name) }}
    args: {{ toJson .args }}
volumes:
  - name: data
    persistentVolumeClaim: {claimName: {{ .root.Values.data.claim | default (printf "%s-data" .root.Release.Name) }}}
{{- end }}

{{- define "streamwarden.container" -}}
image: {{ .Values.image | quote }}
imagePullPolicy: {{ .Values.imagePullPolicy }}
securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
envFrom:
  {{- range .Values.secrets }}
  - secretRef: {name: {{ . }}}
  {{- end }}
env:
  {{- $own := dict
    "AIRFLOW_HOME" "/data/airflow"
    "AIRFLOW__CORE__DAGS_FOLDER" "/opt/streamwarden/dags"
    "AIRFLOW__CORE__PLUGINS_FOLDER" "/opt/streamwarden/plugins"
    "AIRFLOW__CORE__LOAD_EXAMPLES" "False"
    "AIRFLOW__CORE__EXECUTOR" "LocalExecutor"
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL" (printf "http://%s-api-server:8080/execution/" .Release.Name)
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER" "/data/logs"
    "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK" "True"
    "STREAMWARDEN_PROJECT" "/opt/streamwarden"
    "STREAMWARDEN_DATA" "/data/streams"
  }}
  {{- range $name, $value := merge (deepCopy .Values.env) $own }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
volumeMounts:
  - {name: data, mountPath: /data}
{{- end }}
