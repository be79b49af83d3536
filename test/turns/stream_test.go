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

// TestStreamsFirstDeltaAtOnce checks that the first delta of an answer is passed on at
// once, from the model through translation, journal and stream to the client of the
// OpenAI API.
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
		_ = resp.Body.Close() // read to its end
		took = append(took, first.Sub(<-told))
	}
	slices.Sort(took)
	t.Logf("median %v, worst %v", took[n/2], took[n-1])
	if took[n/2] > 2*time.Second { // far above the promise, because the machine may be busy
		t.Errorf("the first piece was passed on after %v", took)
	}
}
