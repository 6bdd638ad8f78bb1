{{/* What the program is called here. */}}
{{- define "kafka-recovery.base" -}}
{{- .Values.nameOverride | default "kafka-recovery-operator" -}}
{{- end -}}

{{/* What all objects of this release are called, the Lease and the ConfigMap that suspends it too. */}}
{{- define "kafka-recovery.name" -}}
{{- .Values.fullnameOverride | default (include "kafka-recovery.base" .) -}}
{{- end -}}

{{/* The account it runs as. */}}
{{- define "kafka-recovery.account" -}}
{{- .Values.serviceAccount.name | default (include "kafka-recovery.name" .) -}}
{{- end -}}

{{/* Who reads the admission policies, by a name of its own in the whole cluster. */}}
{{- define "kafka-recovery.reader" -}}
kafka-recovery-admission-reader-{{ .Release.Namespace }}
{{- if ne (include "kafka-recovery.name" .) "kafka-recovery-operator" }}-{{ include "kafka-recovery.name" . }}{{ end }}
{{- end -}}

{{- define "kafka-recovery.selector" -}}
app.kubernetes.io/name: {{ include "kafka-recovery.base" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kafka-recovery.labels" -}}
{{ include "kafka-recovery.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kafka-recovery
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The objects of .file, a copy of one in manifests/, as JSON: what is said there is said nowhere else. */}}
{{- define "kafka-recovery.objects" -}}
{{- $objects := list -}}
{{- $text := .root.Files.Get (printf "files/manifests/%s" .file) -}}
{{- range regexSplit "(?m)^---$" (required (printf "files/manifests/%s is missing" .file) $text) -1 -}}
{{- $objects = append $objects (fromYaml .) -}}
{{- end -}}
{{- toJson (dict "objects" $objects) -}}
{{- end -}}

{{/* The rules of a Role that .file holds, by its .name, as JSON. */}}
{{- define "kafka-recovery.rules" -}}
{{- $name := .name -}}
{{- range (include "kafka-recovery.objects" . | fromJson).objects -}}
{{- if and (has .kind (list "Role" "ClusterRole")) (eq .metadata.name $name) -}}
{{- toJson (dict "rules" .rules) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" where every namespace is watched. */}}
{{- define "kafka-recovery.everywhere" -}}
{{- if has "*" .Values.watchNamespaces }}true{{ end -}}
{{- end -}}

{{/* Namespaces that are watched one by one, as JSON. */}}
{{- define "kafka-recovery.namespaces" -}}
{{- if include "kafka-recovery.everywhere" . -}}
{{- toJson (dict "names" list) -}}
{{- else -}}
{{- toJson (dict "names" (.Values.watchNamespaces | default (list .Release.Namespace) | uniq)) -}}
{{- end -}}
{{- end -}}

{{/* What the operator may do where it watches. */}}
{{- define "kafka-recovery.watching" -}}
{{- if and .Values.strimzi.enabled (not .Values.secretNames) -}}
{{- fail "strimzi.enabled: beside a Kafka of Strimzi's lie the keys of its CAs; name in secretNames what WatchedClusters need" -}}
{{- end -}}
{{- $rules := list -}}
{{- $operator := dict "root" . "file" "rbac/operator.yaml" "name" "kafka-recovery-operator" -}}
{{- range (include "kafka-recovery.rules" $operator | fromJson).rules -}}
{{- if not (or (has "coordination.k8s.io" .apiGroups) (has "configmaps" .resources)) -}}
{{- if and (has "secrets" .resources) $.Values.secretNames -}}
{{- $_ := set . "resourceNames" $.Values.secretNames -}}
{{- end -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- range $part, $role := dict "fleet" "rankings" "strimzi" "strimzi" -}}
{{- if (index $.Values $part).enabled -}}
{{- $more := dict "root" $ "file" (printf "rbac/optional/%s.yaml" $part) "name" (printf "kafka-recovery-operator-%s" $role) -}}
{{- $rules = concat $rules (include "kafka-recovery.rules" $more | fromJson).rules -}}
{{- end -}}
{{- end -}}
{{- if .Values.strimzi.holdBack -}}
{{- $more := dict "root" $ "file" "rbac/optional/hold-back.yaml" "name" "kafka-recovery-operator-hold-back" -}}
{{- $rules = concat $rules (include "kafka-recovery.rules" $more | fromJson).rules -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* What it may do at home: hold the Lease, read whether everything is suspended, and have alerts come to it. */}}
{{- define "kafka-recovery.home" -}}
{{- $rules := list -}}
{{- $operator := dict "root" . "file" "rbac/operator.yaml" "name" "kafka-recovery-operator" -}}
{{- range (include "kafka-recovery.rules" $operator | fromJson).rules -}}
{{- if or (has "coordination.k8s.io" .apiGroups) (has "configmaps" .resources) -}}
{{- if .resourceNames -}}
{{- $_ := set . "resourceNames" (list (include "kafka-recovery.name" $)) -}}
{{- end -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- if .Values.alertmanager.enabled -}}
{{- $alerts := dict "root" . "file" "rbac/optional/alerts.yaml" "name" "kafka-recovery-operator-alerts" -}}
{{- range (include "kafka-recovery.rules" $alerts | fromJson).rules -}}
{{- $names := list -}}
{{- range .resourceNames -}}
{{- $names = append $names (. | replace "kafka-recovery-operator" (include "kafka-recovery.name" $)) -}}
{{- end -}}
{{- $rules = append $rules (set . "resourceNames" $names) -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* An .account of the .root release, as bindings name it. */}}
{{- define "kafka-recovery.subject" -}}
- kind: ServiceAccount
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* What the fleet operator's objects are called, its Lease too. */}}
{{- define "kafka-recovery.fleetName" -}}
{{ include "kafka-recovery.name" . }}-fleet
{{- end -}}

{{/* The account that it runs as. */}}
{{- define "kafka-recovery.fleetAccount" -}}
{{- .Values.fleet.serviceAccount.name | default (include "kafka-recovery.fleetName" .) -}}
{{- end -}}

{{/* Its Pods, which are none of the operator's that elects. */}}
{{- define "kafka-recovery.fleetSelector" -}}
app.kubernetes.io/name: {{ include "kafka-recovery.base" . }}-fleet
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* What it may do where it watches; at .home: hold its Lease. */}}
{{- define "kafka-recovery.fleetRules" -}}
{{- $root := .root -}}
{{- $home := .home -}}
{{- $rules := list -}}
{{- $fleet := dict "root" $root "file" "rbac/optional/fleet.yaml" "name" "kafka-recovery-operator-fleet" -}}
{{- range (include "kafka-recovery.rules" $fleet | fromJson).rules -}}
{{- if eq $home (has "coordination.k8s.io" .apiGroups) -}}
{{- if .resourceNames -}}
{{- $_ := set . "resourceNames" (list (include "kafka-recovery.fleetName" $root)) -}}
{{- end -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{- define "kafka-recovery.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Secrets that the webhook needs, each with the folder it is mounted in, as JSON. */}}
{{- define "kafka-recovery.webhookSecrets" -}}
{{- $secrets := list -}}
{{- with .Values.alertmanager -}}
{{- if .enabled -}}
{{- if not (or .tokenSecret.name .clientCaSecret) -}}
{{- fail "alertmanager.enabled: nobody would be asked who they are; name alertmanager.tokenSecret.name, alertmanager.clientCaSecret or both" -}}
{{- end -}}
{{- if and .clientCaSecret (not .tlsSecret) -}}
{{- fail "alertmanager.clientCaSecret: clients' certificates need TLS; name alertmanager.tlsSecret too" -}}
{{- end -}}
{{- range $folder, $name := dict "token" .tokenSecret.name "tls" .tlsSecret "client-ca" .clientCaSecret -}}
{{- if $name -}}
{{- $secrets = append $secrets (dict "volume" (printf "webhook-%s" $folder) "folder" $folder "name" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "secrets" $secrets) -}}
{{- end -}}

{{/* Secrets by which metrics are served, each with the folder it is mounted in, as JSON. */}}
{{- define "kafka-recovery.metricsSecrets" -}}
{{- $secrets := list -}}
{{- with .Values.monitoring.metrics -}}
{{- if and .clientCaSecret (not .tlsSecret) -}}
{{- fail "monitoring.metrics.clientCaSecret: clients' certificates need TLS; name monitoring.metrics.tlsSecret too" -}}
{{- end -}}
{{- range $folder, $name := dict "metrics-token" .tokenSecret.name "metrics-tls" .tlsSecret "metrics-client-ca" .clientCaSecret -}}
{{- if $name -}}
{{- $secrets = append $secrets (dict "volume" $folder "folder" $folder "name" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "secrets" $secrets) -}}
{{- end -}}

{{/* How a .monitor of the .root release scrapes: how often, what it makes of labels, and how it is let in. */}}
{{- define "kafka-recovery.scraping" -}}
{{- $root := .root -}}
{{- $monitor := .monitor -}}
{{- range $key := list "interval" "relabelings" "metricRelabelings" -}}
{{- with index $monitor $key }}
{{ dict $key . | toYaml }}
{{- end -}}
{{- end -}}
{{- with $root.Values.monitoring.metrics -}}
{{- if .tlsSecret }}
{{- $given := .tlsConfig | default dict }}
{{- $by := dict "ca" (dict "secret" (dict "name" .tlsSecret "key" "ca.crt")) "serverName" (printf "%s-metrics.%s.svc" (include "kafka-recovery.name" $root) $root.Release.Namespace) }}
scheme: https
{{- if and .clientCaSecret (not (and $given.cert $given.keySecret)) }}
{{- fail "monitoring.metrics.clientCaSecret: a monitor needs a certificate of that CA; name `cert` and `keySecret` in monitoring.metrics.tlsConfig" }}
{{- end }}
{{ dict "tlsConfig" (merge (dict) $given $by) | toYaml }}
{{- end -}}
{{- with .tokenSecret -}}
{{- if .name }}
{{ dict "authorization" (dict "credentials" (dict "name" .name "key" .key)) | toYaml }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What runs, as JSON: what it is called, the labels of its Pods, their ports that others call, and what is said of it. */}}
{{- define "kafka-recovery.parts" -}}
{{- $ports := ternary (list "metrics" "alerts") (list "metrics") .Values.alertmanager.enabled -}}
{{- $parts := list (dict "name" (include "kafka-recovery.name" .) "selector" (include "kafka-recovery.selector" .) "replicas" .Values.replicaCount "ports" $ports) -}}
{{- if .Values.fleet.enabled -}}
{{- $parts = append $parts (dict "name" (include "kafka-recovery.fleetName" .) "selector" (include "kafka-recovery.fleetSelector" .) "replicas" .Values.fleet.replicaCount "ports" (list "metrics")) -}}
{{- end -}}
{{- toJson (dict "parts" $parts) -}}
{{- end -}}
