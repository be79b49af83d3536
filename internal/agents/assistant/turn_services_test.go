package assistant

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
)

// newServedTurn returns the run of a turn with an offered tool.
func newServedTurn(id string, call func(context.Context, tool.Call) (tool.Result, error)) *turnRun {
	return &turnRun{
		Turn: &Turn{pipeline: &Pipeline{}, assistant: &Assistant{ID: "coder"}, chat: &chat{ID: "chat", Owner: alice}}, id: id,
		offered: []tool.Tool{{Server: "s", Name: "t", Call: call}},
	}
}

// TestNoTurnNoServices checks that an agent between two turns has neither a model nor tools, and that each request is one of the turn that is
// attached.
func TestNoTurnNoServices(t *testing.T) {
	var v turnServices
	var callers []string
	call := func(_ context.Context, c tool.Call) (tool.Result, error) {
		callers = append(callers, c.Caller.Turn)
		return tool.Result{Text: "done"}, nil
	}
	forwarded := v.forward(tool.Tool{Server: "s", Name: "t"})
	request := func() (status int, err error) {
		w := httptest.NewRecorder()
		v.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/messages", nil))
		_, err = forwarded.Call(t.Context(), tool.Call{Caller: tool.Caller{Turn: "of the first"}})
		return w.Code, err
	}
	for _, id := range []string{"first", "second"} {
		if status, err := request(); status != http.StatusServiceUnavailable || !errors.Is(err, noTurn) {
			t.Errorf("before turn %s: %d, %v", id, status, err)
		}
		model := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
		v.attach(t.Context(), newServedTurn(id, call), &agent.Job{Model: model})
		if status, err := request(); status != http.StatusAccepted || err != nil {
			t.Errorf("in turn %s: %d, %v", id, status, err)
		}
		v.detach()
	}
	if status, err := request(); status != http.StatusServiceUnavailable || !errors.Is(err, noTurn) {
		t.Errorf("after the turns: %d, %v", status, err)
	}
	if len(callers) != 2 || callers[0] != "first" || callers[1] != "second" {
		t.Errorf("the tool was called by %q", callers)
	}
}

// TestRequestsEndWithTheirTurn checks that a turn's end waits for its requests to the model, and cancels those that go on for too long.
func TestRequestsEndWithTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v turnServices
		started := make(chan struct{})
		cancelled := false
		model := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
			cancelled = true
		})
		v.attach(t.Context(), newServedTurn("turn", nil), &agent.Job{Model: model})
		go v.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/messages", nil))
		<-started
		v.detach()
		if !cancelled {
			t.Error("the request goes on after its turn")
		}
	})
}
