package fleet

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestStops: whether a pod can be stopped depends on its stored settings, not only on
// its driver.
func TestStops(t *testing.T) {
	for _, c := range []struct {
		pod         *atoll.Pod
		usual, want bool
	}{
		{nil, true, true},
		{nil, false, false},
		{&atoll.Pod{}, true, true},
		{&atoll.Pod{StorageClass: "default"}, false, true},
		{&atoll.Pod{StorageClass: "fast"}, false, true},
		{&atoll.Pod{StorageClass: "none"}, true, false},
		{&atoll.Pod{StorageClass: "memory"}, true, false},
		{&atoll.Pod{Template: "python"}, false, true},
	} {
		if got := canStop(c.pod, c.usual); got != c.want {
			t.Errorf("%+v, usually %v: %v", c.pod, c.usual, got)
		}
	}
}
