package atoll_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestNothingPassesTheBounds asks for amounts whose sums overflow.
func TestNothingPassesTheBounds(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	least := atoll.Resources{CPU: -1, Memory: math.MinInt64, PIDs: -1, Disk: -1, FileSize: -1, Files: -1}
	most := atoll.Resources{CPU: 1 << 16, Memory: 1 << 50, PIDs: math.MaxInt32, Disk: 1 << 50, FileSize: 1 << 50, Files: math.MaxInt32}
	always := atoll.Timeouts{Create: century, Exec: -1, Transfer: century}
	for _, r := range []atoll.Resources{{}, least, most} {
		cfg := atoll.Config{Spec: atoll.Spec{Limits: r, Requests: r, Timeouts: always}, Lifecycle: atoll.Lifecycle{TTL: century, Idle: math.MinInt64}}
		if err := cfg.Check(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for field, r := range map[string]atoll.Resources{
		"memory": {Memory: math.MaxInt64}, "disk": {Disk: 1<<50 + 1}, "file_size": {FileSize: math.MaxInt64},
		"pids": {PIDs: math.MaxInt}, "files": {Files: math.MaxInt}, "cpu": {CPU: 1<<16 + 0.5},
	} {
		bounded(t, "limits."+field, atoll.Config{Spec: atoll.Spec{Limits: r}})
		bounded(t, "requests."+field, atoll.Config{Spec: atoll.Spec{Requests: r}})
	}
	for _, cpu := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		bounded(t, "limits.cpu", atoll.Config{Spec: atoll.Spec{Limits: atoll.Resources{CPU: cpu}}})
	}
	bounded(t, "timeouts.create", atoll.Config{Spec: atoll.Spec{Timeouts: atoll.Timeouts{Create: century + 1}}})
	bounded(t, "timeouts.exec", atoll.Config{Spec: atoll.Spec{Timeouts: atoll.Timeouts{Exec: math.MaxInt64}}})
	bounded(t, "timeouts.transfer", atoll.Config{Spec: atoll.Spec{Timeouts: atoll.Timeouts{Transfer: math.MaxInt64}}})
	bounded(t, "lifecycle.ttl", atoll.Config{Lifecycle: atoll.Lifecycle{TTL: math.MaxInt64}})
}

// bounded checks that a configuration is refused for one field, and says which.
func bounded(t *testing.T, field string, cfg atoll.Config) {
	t.Helper()
	err := cfg.Check()
	var e *atoll.FieldError
	if !errors.Is(err, atoll.ErrInvalid) || !errors.As(err, &e) || e.Field != field || !strings.Contains(e.Error(), field) {
		t.Errorf("%s: %v", field, err)
	}
}
