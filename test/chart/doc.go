// Package chart tests the manifests of deploy: the Helm chart and the kustomizations make the same objects.
package chart
