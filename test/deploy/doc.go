// Package deploy tests the manifests of deploy/kubernetes on a real cluster.
package deploy
