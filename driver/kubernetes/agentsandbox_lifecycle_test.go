package kubernetes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestClaimIsOlderThanItsSandbox reads the state of a sandbox whose pod is gone while its claim still says that it
// is ready: agent-sandbox writes the Sandbox first and the claim later.
func TestClaimIsOlderThanItsSandbox(t *testing.T) {
	condition := func(kind, status string) object { return object{"type": kind, "status": status} }
	for name, c := range map[string]struct {
		sandbox []any // its conditions
		want    atoll.State
	}{
		"Suspended": {[]any{condition("Ready", "False"), condition("Suspended", "True")}, atoll.Stopped},
		"Replaced":  {[]any{condition("Ready", "True")}, atoll.Starting},
		"Starting":  {[]any{condition("Ready", "False")}, atoll.Starting},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				code, o := http.StatusOK, object{"status": object{"sandbox": object{"name": "warm-1"}, "conditions": []any{condition("Ready", "True")}}}
				switch {
				case strings.HasSuffix(r.URL.Path, "/sandboxclaims/atoll-s"):
				case strings.HasSuffix(r.URL.Path, "/sandboxes/warm-1"):
					o = object{"status": object{"conditions": c.sandbox}}
				default:
					code, o = http.StatusNotFound, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_ = json.NewEncoder(w).Encode(o) // the client has gone
			}))
			defer s.Close()
			tg := newTarget(t, s.URL)
			p := &pod{d: tg.d, t: tg, id: "s", agent: &agentPod{}}
			st, err := p.Status(t.Context())
			if err != nil || st.State != c.want {
				t.Errorf("%+v, %v; want %s", st, err, c.want)
			}
		})
	}
}
