{{/* A Deployment of ours, of the .root release: its .name, the .selector of its Pods, their .account, their .container with its
.command (none: the image's) and .arguments, whether it hears alerts (.webhook), the .secrets that it mounts, and what its .own values say. */}}
{{- define "kafka-recovery.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- merge (.selector | fromYaml) (include "kafka-recovery.labels" .root | fromYaml) | toYaml | nindent 4 }}
spec:
  replicas: {{ .own.replicaCount }}
  # The new one waits for the Lease, which the old one gives back when it ends: they never act both.
  strategy:
    type: {{ .root.Values.strategy.type }}
    {{- if eq .root.Values.strategy.type "RollingUpdate" }}
    rollingUpdate:
      {{- toYaml .root.Values.strategy.rollingUpdate | nindent 6 }}
    {{- end }}
  selector:
    matchLabels:
      {{- .selector | nindent 6 }}
  template:
    metadata:
      labels:
        {{- merge (.selector | fromYaml) (include "kafka-recovery.labels" .root | fromYaml) .root.Values.podLabels | toYaml | nindent 8 }}
      {{- with .root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .account }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
      {{- with .root.Values.dnsPolicy }}
      dnsPolicy: {{ . }}
      {{- end }}
      {{- with .root.Values.dnsConfig }}
      dnsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.hostAliases }}
      hostAliases:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml .root.Values.podSecurityContext | nindent 8 }}
      containers:
      - name: {{ .container }}
        image: {{ include "kafka-recovery.image" .root | quote }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        {{- with .command }}
        command: [{{ . }}]
        {{- end }}
        args:
        {{- .arguments | nindent 8 }}
        env:
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        {{- if .webhook }}
        # Where the Service for alerts leads.
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_UID
          valueFrom: {fieldRef: {fieldPath: metadata.uid}}
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        {{- end }}
        # Libraries ask who they are; a user that the platform chooses has no entry in the image's passwd.
        - {name: LOGNAME, value: kafka-recovery}
        {{- with .own.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with .own.extraEnvFrom }}
        envFrom:
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        - {name: metrics, containerPort: 9090}
        - {name: health, containerPort: 8080}
        {{- if .webhook }}
        - {name: alerts, containerPort: 9095}
        {{- end }}
        # Alive as long as its event loop is; who stands by answers too.
        startupProbe:
          httpGet: {path: /healthz, port: health}
          {{- toYaml .root.Values.startupProbe | nindent 10 }}
        livenessProbe:
          httpGet: {path: /healthz, port: health}
          {{- toYaml .root.Values.livenessProbe | nindent 10 }}
        # Ready once it can list what it watches; who stands by is, to take over.
        readinessProbe:
          httpGet: {path: /readyz, port: health}
          {{- toYaml .root.Values.readinessProbe | nindent 10 }}
        terminationMessagePolicy: FallbackToLogsOnError
        securityContext:
          {{- toYaml .root.Values.securityContext | nindent 10 }}
        resources:
          {{- toYaml .own.resources | nindent 10 }}
        volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- range .secrets }}
        - {name: {{ .volume }}, mountPath: /etc/kafka-recovery/{{ .folder }}, readOnly: true}
        {{- end }}
        {{- with .own.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
      # In memory: a client's key lies here for the moment in which TLS reads it.
      - name: tmp
        emptyDir: {medium: Memory, sizeLimit: 64Mi}
      {{- range .secrets }}
      - name: {{ .volume }}
        secret: {secretName: {{ .name }}}
      {{- end }}
      {{- with .own.extraVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{/* The Deployment of the operator that elects. */}}
{{- define "kafka-recovery.operator" -}}
{{ include "kafka-recovery.deployment" (dict
  "root" .
  "name" (include "kafka-recovery.name" .)
  "selector" (include "kafka-recovery.selector" .)
  "account" (include "kafka-recovery.account" .)
  "container" "operator"
  "arguments" (include "kafka-recovery.arguments" .)
  "webhook" .Values.alertmanager.enabled
  "secrets" (concat (include "kafka-recovery.webhookSecrets" . | fromJson).secrets (include "kafka-recovery.metricsSecrets" . | fromJson).secrets)
  "own" .Values
) }}
{{- end -}}

{{/* Arguments of the operator that elects. */}}
{{- define "kafka-recovery.arguments" -}}
- --authority={{ .Values.authority }}
{{- if ne (include "kafka-recovery.name" .) "kafka-recovery-operator" }}
- --name={{ include "kafka-recovery.name" . }}
{{- end }}
- --probe={{ .Values.probe }}
- --rescan={{ .Values.rescan }}
{{- with .Values.evidence }}
{{- if .folder }}
- {{ printf "--evidence=%s" .folder | quote }}
- --evidence-every={{ .every }}
- --evidence-keep={{ .keep }}
{{- end }}
{{- end }}
{{- with .Values.alertmanager }}
{{- if .enabled }}
- --webhook-port=9095
- --webhook-service={{ include "kafka-recovery.name" $ }}-alerts
{{- if .tokenSecret.name }}
- --webhook-token-file=/etc/kafka-recovery/token/{{ .tokenSecret.key }}
{{- end }}
{{- if .tlsSecret }}
- --webhook-tls-cert=/etc/kafka-recovery/tls/tls.crt
- --webhook-tls-key=/etc/kafka-recovery/tls/tls.key
{{- end }}
{{- if .clientCaSecret }}
- --webhook-client-ca=/etc/kafka-recovery/client-ca/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{ include "kafka-recovery.sharedArguments" . }}
{{- range .Values.extraArgs }}
- {{ quote . }}
{{- end }}
{{- end -}}

{{/* Arguments of the fleet operator. */}}
{{- define "kafka-recovery.fleetArguments" -}}
{{- if ne (include "kafka-recovery.name" .) "kafka-recovery-operator" -}}
- --name={{ include "kafka-recovery.fleetName" . }}
{{ end -}}
{{- range .Values.fleet.resultsPrefixes -}}
- {{ printf "--fleet-results=%s" . | quote }}
{{ end -}}
{{ include "kafka-recovery.sharedArguments" . }}
{{- range .Values.fleet.extraArgs }}
- {{ quote . }}
{{- end }}
{{- end -}}

{{/* Those of both. */}}
{{- define "kafka-recovery.sharedArguments" -}}
- --lease-duration={{ .Values.leaseDuration }}
{{- if include "kafka-recovery.everywhere" . }}
- --all-namespaces
{{- end }}
{{- range (include "kafka-recovery.namespaces" . | fromJson).names }}
- --namespace={{ . }}
{{- end }}
- --metrics-port=9090
{{- with .Values.monitoring.metrics }}
{{- if .tokenSecret.name }}
- --metrics-token-file=/etc/kafka-recovery/metrics-token/{{ .tokenSecret.key }}
{{- end }}
{{- if .tlsSecret }}
- --metrics-tls-cert=/etc/kafka-recovery/metrics-tls/tls.crt
- --metrics-tls-key=/etc/kafka-recovery/metrics-tls/tls.key
{{- end }}
{{- if .clientCaSecret }}
- --metrics-client-ca=/etc/kafka-recovery/metrics-client-ca/ca.crt
{{- end }}
{{- end }}
- --liveness=http://:8080/healthz
- --log-format={{ .Values.log.format }}
- --log-level={{ .Values.log.level }}
{{- end -}}
