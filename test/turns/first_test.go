package turns

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

// The first piece of an answer is passed on at once, on its way from the model
// through translation, log and stream to the client of another API.
func TestStreamsFirstDeltaAtOnce(t *testing.T) {
	const n = 21
	told := make(chan time.Time, 1)
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{{Text: "Hello there.", FirstPiece: told, Pause: modeltest.Duration(20 * time.Millisecond)}}}})
	s.app.Assistants["greeter"] = &assistant.Assistant{ID: "greeter", Connector: "test"}
	body, _ := json.Marshal(jsonObject{"model": "greeter", "stream": true, "messages": []jsonObject{userMessage("hi")}})
	var took []time.Duration
	for range n {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/v1/chat/completions", strings.NewReader(string(body)))
		s.must(err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+s.token)
		resp, err := http.DefaultClient.Do(r)
		s.must(err)
		var first time.Time
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if first.IsZero() && strings.Contains(in.Text(), `"content":"Hel`) {
				first = time.Now()
			}
		}
		_ = resp.Body.Close() // all was read
		took = append(took, first.Sub(<-told))
	}
	slices.Sort(took)
	t.Logf("median %v, worst %v", took[n/2], took[n-1])
	if took[n/2] > 2*time.Second { // the machine may be busy: far above the promise
		t.Errorf("the first piece was passed on after %v", took)
	}
}
