package kubernetes_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
)

func TestSuiteGuest(t *testing.T) {
	t.Parallel() // both wait more than they work, and so nothing restarts the cluster meanwhile
	d := newDriver(t)
	d.Placement, d.StorageClass = kubernetes.PlaceCopy, "default" // so that a stop has something to keep
	atolltest.Run(t, d)
}

func TestSuitePlain(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.Placement = kubernetes.PlaceNone
	atolltest.Run(t, d)
}
