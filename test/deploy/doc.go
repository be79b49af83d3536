// Package deploy tests what deploy/kubernetes installs, on a real cluster.
package deploy
