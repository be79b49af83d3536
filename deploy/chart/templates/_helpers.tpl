{{- define "atoll.several" -}}{{ if gt (int .Values.replicas) 1 }}true{{ end }}{{- end }}

{{- define "atoll.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: atoll
    namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* The configuration of the server: the values of this chart, over which .Values.config is laid. */}}
{{- define "atoll.config" -}}
{{- $ns := .Release.Namespace }}
{{- $names := concat (list "atoll" (printf "atoll.%s" $ns) (printf "atoll.%s.svc" $ns) (printf "atoll.%s.svc.cluster.local" $ns)) .Values.hostNames }}
{{- $kubernetes := dict }}
{{- if ne .Values.sandboxes.namespace "atoll" }}{{ $_ := set $kubernetes "namespace" .Values.sandboxes.namespace }}{{ end }}
{{- with .Values.sandboxes.runtimeClass }}{{ $_ := set $kubernetes "runtime_class" . }}{{ end }}
{{- with .Values.kubeconfig.secret }}{{ $_ := set $kubernetes "kubeconfig" "/etc/atoll-clusters/config" }}{{ end }}
{{- $made := dict "driver" "kubernetes" "agents" (dict "driver" "kubernetes") "serve" (dict "listen" (list "0.0.0.0:8484") "host_names" $names "grace" "20s") }}
{{- if $kubernetes }}{{ $_ := set $made "kubernetes" $kubernetes }}{{ end }}
{{- toYaml (mergeOverwrite $made (deepCopy .Values.config)) }}
{{- end }}

{{- define "atoll.probe" -}}
{path: {{ .path | quote }}, port: http{{ if .tls }}, scheme: HTTPS{{ end }}}
{{- end }}
