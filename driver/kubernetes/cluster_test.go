package kubernetes_test

import (
	"os"
	"testing"

	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

// newDriver returns a driver of the cluster with a namespace of its own, which it creates itself.
func newDriver(t testing.TB) *kubernetes.Driver {
	t.Helper()
	d := &kubernetes.Driver{Kubeconfig: clustertest.Kubeconfig(t), Dir: t.TempDir()}
	d.Namespace = clustertest.Namespace(t, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	return d
}
