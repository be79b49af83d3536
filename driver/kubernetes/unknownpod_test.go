package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// forgetfulNode is an API server whose node does not know a pod for some requests.
type forgetfulNode struct {
	phase   string       // of the pod; empty: it does not exist
	unknown atomic.Int64 // requests that are answered by 404
	asked   atomic.Int64
}

func (n *forgetfulNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, o object) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(o) // the client has gone
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/pods/p") && n.phase == "":
		answer(http.StatusNotFound, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
	case strings.HasSuffix(r.URL.Path, "/pods/p"):
		state := object{"running": object{}}
		if n.phase != "Running" {
			state = object{"terminated": object{}}
		}
		answer(http.StatusOK, object{"kind": "Pod", "apiVersion": "v1", "status": object{"phase": n.phase, "containerStatuses": []any{object{"name": container, "state": state}}}})
	case n.unknown.Add(-1) >= 0:
		n.asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "pod does not exist") // as a kubelet answers
	default:
		n.asked.Add(1)
		answer(http.StatusForbidden, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403})
	}
}

// TestUnknownPodIsRetried runs commands and opens tunnels in a pod that its node does not know for a moment, as
// after a restart of the kubelet.
func TestUnknownPodIsRetried(t *testing.T) {
	for name, request := range map[string]func(ctx context.Context, tg *target) error{
		"Exec": func(ctx context.Context, tg *target) error {
			_, err := tg.runCommand(ctx, &podCall{pod: "p", container: container, args: []string{"true"}})
			return err
		},
		"Tunnel": func(ctx context.Context, tg *target) error {
			_, err := tg.openTunnel(ctx, "p", guestPort)
			return err
		},
	} {
		for phase, want := range map[string]error{"Running": atoll.ErrDenied, "Failed": atoll.ErrNotFound, "": atoll.ErrNotFound} {
			t.Run(name+"/"+phase, func(t *testing.T) {
				node := &forgetfulNode{phase: phase}
				node.unknown.Store(7)
				s := httptest.NewTLSServer(node)
				defer s.Close()
				err := request(t.Context(), newTarget(t, s.URL))
				if !errors.Is(err, want) {
					t.Errorf("%v; want %v", err, want)
				}
				if retried := node.asked.Load() > 2; retried != (phase == "Running") { // over WebSocket and SPDY
					t.Errorf("asked %d times", node.asked.Load())
				}
			})
		}
	}
}

// TestPodThatRunsIsUnavailable connects to the guest of a pod that runs, while its node does not know it and the
// API fails once: the error must not say that the pod does not exist, which would end its commands.
func TestPodThatRunsIsUnavailable(t *testing.T) {
	var failed atomic.Bool
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/pods/atoll-s"):
			http.Error(w, "pod does not exist", http.StatusNotFound) // as a kubelet answers
		case failed.CompareAndSwap(false, true):
			http.Error(w, "starting", http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(object{ // the client has gone
				"kind": "Pod", "apiVersion": "v1", "metadata": object{"name": "atoll-s", "labels": object{labelID: "s"}},
				"status": object{"phase": "Running", "containerStatuses": []any{object{"name": container, "state": object{"running": object{}}}}},
			})
		}
	}))
	defer s.Close()
	tg := newTarget(t, s.URL)
	p := &pod{d: tg.d, t: tg, id: "s", how: PlaceImage, port: guestPort}
	if _, err := p.connectOrExplain(t.Context()); !errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("%v; want ErrUnavailable alone", err)
	}
}
