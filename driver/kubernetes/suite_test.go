package kubernetes_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
)

func TestSuiteGuest(t *testing.T) {
	t.Parallel() // both mostly wait; no other test restarts the cluster meanwhile
	d := newDriver(t)
	d.Placement, d.StorageClass = kubernetes.PlaceCopy, "default" // so that a stopped sandbox keeps its files
	atolltest.Run(t, d)
}

func TestSuitePlain(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.Placement = kubernetes.PlaceNone
	atolltest.Run(t, d)
}
