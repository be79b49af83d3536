package kubernetes_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
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
	laws := atolltest.Laws()
	atolltest.RunLaws(t, d, testenv.Sample(t, laws, len(laws)/2, "ATOLL_LAWS")...) // half of the laws: it has no guest, so that more of them differ
}
