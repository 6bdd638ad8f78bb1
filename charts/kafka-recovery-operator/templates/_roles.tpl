{{/* The Roles of one of our accounts, in the .root release: its .name, the .account that they are bound to, what it may do at
.home, and what where it is .watching. */}}
{{- define "kafka-recovery.roles" -}}
{{- $name := .name -}}
{{- $labels := include "kafka-recovery.labels" .root -}}
{{- $watching := .watching -}}
{{- $subject := include "kafka-recovery.subject" . -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}-home
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
rules:
{{ .home }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}-home
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}-home}
subjects:
{{ $subject }}
{{- range (include "kafka-recovery.namespaces" .root | fromJson).names }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ . }}
  labels:
    {{- $labels | nindent 4 }}
rules:
{{ $watching }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ . }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
{{ $subject }}
{{- end }}
{{- if include "kafka-recovery.everywhere" .root }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}-{{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
rules:
{{ .watching }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}-{{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }}-{{ .root.Release.Namespace }}}
subjects:
{{ $subject }}
{{- end }}
{{- end -}}
