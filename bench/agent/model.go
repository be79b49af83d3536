package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// wordDelay is the pause between the model's words, so that the first one
// arrives alone.
const wordDelay = 10 * time.Millisecond

// fakeModel is a model that answers every request with the same words, in
// Anthropic's dialect.
type fakeModel struct {
	mu sync.Mutex
	at time.Time // guarded by mu: when the first word was sent
}

func (m *fakeModel) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = time.Time{}
}

func (m *fakeModel) firstSent() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// ServeHTTP streams the answer.
func (m *fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the request does not matter
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/messages") {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	c := http.NewResponseController(w)
	say := func(event, data string) {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
		_ = c.Flush()
	}
	say("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}`)
	say("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	m.wait(r)
	for i := range 5 {
		if i == 0 {
			m.mu.Lock()
			if m.at.IsZero() {
				m.at = time.Now()
			}
			m.mu.Unlock()
		}
		say("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word %d "}}`, i))
		m.wait(r)
	}
	say("content_block_stop", `{"type":"content_block_stop","index":0}`)
	say("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":12}}`)
	say("message_stop", `{"type":"message_stop"}`)
}

// wait waits for wordDelay.
func (*fakeModel) wait(r *http.Request) {
	select {
	case <-time.After(wordDelay):
	case <-r.Context().Done():
	}
}

// runFakeAgent is the smallest agent: it asks the model and prints each word
// on a line.
func runFakeAgent() error {
	prompt, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"stream": true, "messages": []any{map[string]string{"role": "user", "content": string(prompt)}}})
	if err != nil {
		return err
	}
	resp, err := http.Post(os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", "application/json", bytes.NewReader(body)) //nolint:noctx // it ends with the process
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		var event struct {
			Delta struct{ Text string }
		}
		data, ok := strings.CutPrefix(s.Text(), "data: ")
		if ok && json.Unmarshal([]byte(data), &event) == nil && event.Delta.Text != "" {
			fmt.Fprintln(os.Stdout, event.Delta.Text)
		}
	}
	return nil
}
