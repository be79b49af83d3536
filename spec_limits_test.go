package atoll_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestAmountsAreBounded checks amounts at their bounds and amounts whose sums overflow.
func TestAmountsAreBounded(t *testing.T) {
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
		checkRefused(t, "limits."+field, atoll.Config{Spec: atoll.Spec{Limits: r}})
		checkRefused(t, "requests."+field, atoll.Config{Spec: atoll.Spec{Requests: r}})
	}
	for _, cpu := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		checkRefused(t, "limits.cpu", atoll.Config{Spec: atoll.Spec{Limits: atoll.Resources{CPU: cpu}}})
	}
	checkRefused(t, "timeouts.create", atoll.Config{Spec: atoll.Spec{Timeouts: atoll.Timeouts{Create: century + 1}}})
	checkRefused(t, "timeouts.exec", atoll.Config{Spec: atoll.Spec{Timeouts: atoll.Timeouts{Exec: math.MaxInt64}}})
	checkRefused(t, "timeouts.transfer", atoll.Config{Spec: atoll.Spec{Timeouts: atoll.Timeouts{Transfer: math.MaxInt64}}})
	checkRefused(t, "lifecycle.ttl", atoll.Config{Lifecycle: atoll.Lifecycle{TTL: math.MaxInt64}})
}

// TestEnvironmentIsBounded checks environments and secrets that are too large. One request can
// have 45,000 secrets.
func TestEnvironmentIsBounded(t *testing.T) {
	variables := func(n int) (list []string, secrets map[string]string) {
		secrets = make(map[string]string)
		for i := range n {
			name := fmt.Sprintf("K%dKEY", i)
			list, secrets[name] = append(list, name+"=value"), "value"
		}
		return list, secrets
	}
	large := "A=" + strings.Repeat("x", 256<<10-2)
	half, more := variables(500)
	thousand, _ := variables(1000)
	for _, cfg := range []atoll.Config{{Spec: atoll.Spec{Env: thousand}}, {Spec: atoll.Spec{Env: half}, Secrets: more}, {Spec: atoll.Spec{Env: []string{large}}}} {
		cmd := atoll.Cmd{Shell: "env", Env: cfg.Env}
		if err := errors.Join(cfg.Check(), cmd.Check()); err != nil {
			t.Error(err)
		}
	}
	many, secrets := variables(45_000)
	for _, env := range [][]string{many, {large, "B="}, append(thousand[:1000:1000], "malformed")} {
		checkRefused(t, "env", atoll.Config{Spec: atoll.Spec{Env: env}})
		cmd := atoll.Cmd{Shell: "env", Env: env}
		if err := cmd.Check(); !errors.Is(err, atoll.ErrInvalid) || len(err.Error()) > 1000 {
			t.Errorf("a command with %d: %.100v", len(env), err)
		}
	}
	checkRefused(t, "secrets", atoll.Config{Secrets: secrets})
	checkRefused(t, "secrets", atoll.Config{Secrets: map[string]string{"S": large}})
	more["ONE"] = "more"
	checkRefused(t, "secrets", atoll.Config{Spec: atoll.Spec{Env: half}, Secrets: more})
}

// checkRefused checks that a configuration is refused with an error that names the field.
func checkRefused(t *testing.T, field string, cfg atoll.Config) {
	t.Helper()
	err := cfg.Check()
	var e *atoll.FieldError
	if !errors.Is(err, atoll.ErrInvalid) || !errors.As(err, &e) || e.Field != field || !strings.Contains(e.Error(), field) {
		t.Errorf("%s: %v", field, err)
	}
}
