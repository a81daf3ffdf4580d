{{- define "recollect.labels" -}}
{{ include "recollect.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "recollect.selector" -}}
app.kubernetes.io/name: recollect
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "recollect.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What cannot work is refused before anything is made. */ -}}
{{- define "recollect.check" -}}
{{- if and .Values.tls.existingSecret .Values.tls.plaintextInMesh }}
{{- fail "tls.existingSecret and tls.plaintextInMesh exclude each other: name a certificate, or say that a mesh encrypts" }}
{{- end }}
{{- if not (or .Values.tls.existingSecret .Values.tls.plaintextInMesh) }}
{{- fail "callers in other pods need TLS: set tls.existingSecret to a Secret of the type kubernetes.io/tls, or tls.plaintextInMesh=true where a mesh encrypts" }}
{{- end }}
{{- if and (eq .Values.store.kind "postgresql") (not .Values.store.existingSecret) }}
{{- fail "store.kind=postgresql needs store.existingSecret: a Secret with the database's URL in the key url" }}
{{- end }}
{{- if and (eq .Values.store.kind "folder") (not .Values.tokens.existingSecret) }}
{{- fail "callers in other pods need a token: set tokens.existingSecret to a Secret with the key tokens.jsonl (values.yaml says how to make it)" }}
{{- end }}
{{- if and .Values.backup.enabled (eq .Values.store.kind "postgresql") }}
{{- fail "backup.enabled is for store.kind=folder: back up a database with its own tools" }}
{{- end }}
{{- end }}

{{- define "recollect.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "recollect.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "recollect.environment" -}}
- name: RECOLLECT_DATA_DIR
  value: /data
- name: RECOLLECT_LOG_FORMAT
  value: json
- name: RECOLLECT_LISTEN
  value: unix:/run/recollect/recollect.sock, 0.0.0.0:50051
- name: RECOLLECT_HEALTH_LISTEN
  value: 0.0.0.0:8081
{{- if .Values.tls.existingSecret }}
- name: RECOLLECT_TLS_CERT
  value: /tls/tls.crt
- name: RECOLLECT_TLS_KEY
  value: /tls/tls.key
{{- else }}
- name: RECOLLECT_INSECURE_PLAINTEXT
  value: "true"
{{- end }}
{{- if .Values.metrics.enabled }}
- name: RECOLLECT_METRICS
  value: 0.0.0.0:9464
{{- end }}
{{- if eq .Values.store.kind "postgresql" }}
- name: RECOLLECT_STORE
  valueFrom:
    secretKeyRef:
      name: {{ .Values.store.existingSecret }}
      key: url
- name: PGPASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .Values.store.existingSecret }}
      key: password
      optional: true
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: RECOLLECT_{{ upper $name }}
  {{- /* Helm reads numbers as floats, and would write 16777216 as 1.6777216e+07. */}}
  {{- if and (kindIs "float64" $value) (eq (floor $value) $value) }}
  value: {{ int64 $value | quote }}
  {{- else }}
  value: {{ $value | toString | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "recollect.pod" -}}
metadata:
  labels:
    {{- include "recollect.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  securityContext:
    {{- include "recollect.podSecurity" . | nindent 4 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if eq .Values.store.kind "folder" }}
  initContainers:
    # The first ledger of tokens; later ones are made and revoked by calls and commands, and stay.
    - name: tokens
      image: {{ include "recollect.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [sh, -c, "test -e /data/tokens.jsonl || install -m 0600 /tokens/tokens.jsonl /data/tokens.jsonl"]
      securityContext:
        {{- include "recollect.containerSecurity" . | nindent 8 }}
      resources:
        requests: { cpu: 10m, memory: 16Mi }
        limits: { memory: 64Mi }
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: tokens, mountPath: /tokens, readOnly: true }
  {{- end }}
  containers:
    - name: recollect
      image: {{ include "recollect.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve]
      env:
        {{- include "recollect.environment" . | nindent 8 }}
      {{- with .Values.secretEnvironment }}
      envFrom:
        {{- range . }}
        - secretRef:
            name: {{ . }}
        {{- end }}
      {{- end }}
      ports:
        - { name: grpc, containerPort: 50051 }
        - { name: health, containerPort: 8081 }
        {{- if .Values.metrics.enabled }}
        - { name: metrics, containerPort: 9464 }
        {{- end }}
      # A start after a crash compares the index with the logs: it may take minutes, and is alive.
      startupProbe:
        httpGet: { path: /livez, port: health }
        periodSeconds: 2
        failureThreshold: 300
      livenessProbe:
        httpGet: { path: /livez, port: health }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: health }
        periodSeconds: 5
        timeoutSeconds: 5
      securityContext:
        {{- include "recollect.containerSecurity" . | nindent 8 }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: run, mountPath: /run/recollect }
        - { name: tmp, mountPath: /tmp }
        {{- if .Values.tls.existingSecret }}
        - { name: tls, mountPath: /tls, readOnly: true }
        {{- end }}
  volumes:
    - name: run
      emptyDir: { medium: Memory, sizeLimit: 1Mi }
    - name: tmp
      emptyDir: { sizeLimit: 256Mi }
    {{- if eq .Values.store.kind "folder" }}
    - name: tokens
      secret:
        secretName: {{ .Values.tokens.existingSecret }}
        defaultMode: 0440
    {{- else }}
    - name: data
      emptyDir: { sizeLimit: {{ .Values.scratch.size }} }
    {{- end }}
    {{- if .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ .Values.tls.existingSecret }}
        defaultMode: 0440
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if eq .Values.store.kind "postgresql" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "recollect.selector" . | nindent 10 }}
  {{- end }}
{{- end }}
