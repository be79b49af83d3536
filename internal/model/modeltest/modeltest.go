// Package modeltest is a model for tests: it answers what a script says, in
// every dialect.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Script is what the model says, one Turn for each request; those beyond the
// last get the last again. It is read from JSON as the script.json of recorded
// transcripts.
type Script struct {
	Turns []Turn `json:"turns"`

	// Aux, if it is set, is the answer to requests without tools, such as those
	// for titles and summaries; they then take no Turn.
	Aux string `json:"aux,omitempty"`
}

// Turn is one answer.
type Turn struct {
	Text     string   `json:"text,omitempty"`
	Thinking string   `json:"thinking,omitempty"`
	Tools    []Use    `json:"tools,omitempty"`
	Status   int      `json:"status,omitempty"` // of an error in place of an answer
	Error    string   `json:"error,omitempty"`  // its message
	Hang     Duration `json:"hang,omitempty"`   // before anything is said
	Pause    Duration `json:"pause,omitempty"`  // between pieces of the text
	Cut      bool     `json:"cut,omitempty"`    // the connection ends in the middle
	Stop     string   `json:"stop,omitempty"`   // "length", "refused"; empty: what fits
	Input    int64    `json:"input,omitempty"`  // tokens told; 0: 100
	Output   int64    `json:"output,omitempty"` // tokens told; 0: 25

	// Told, when not nil, gets the time at which the first piece of the answer
	// was written.
	Told chan<- time.Time `json:"-"`
}

// Use is a call of a tool.
type Use struct {
	Name      string          `json:"name"`
	Namespace string          `json:"namespace,omitempty"` // of responses only
	Input     json.RawMessage `json:"input"`
}

func (u Use) input() string {
	if len(u.Input) == 0 {
		return "{}"
	}
	return string(u.Input)
}

// Duration is written as "1.5s".
type Duration time.Duration

// UnmarshalText reads "1.5s".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// Server is the model. URL is its base, for every dialect; what a version puts
// before a path ("/v1") does not matter.
type Server struct {
	*httptest.Server

	mu       sync.Mutex
	script   Script    // guarded by mu
	next     int       // guarded by mu: of script.Turns
	made     int       // guarded by mu: numbers of answers
	requests []Request // guarded by mu
}

// Request is one that was answered.
type Request struct {
	Method string
	Path   string
	Header http.Header
	Body   []byte
	Aux    bool
	Turn   int // of the script, from 0
	Time   time.Time
}

// New starts a model that ends with the test.
func New(t testing.TB, s Script) *Server {
	t.Helper()
	m := &Server{script: s}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(func() {
		m.CloseClientConnections() // hanging requests end
		m.Close()
	})
	return m
}

// Requests returns what was asked so far.
func (m *Server) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Play replaces the script; the next request gets its first turn.
func (m *Server) Play(script Script) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script, m.next = script, 0
}

// answer is one turn on its way to a client.
type answer struct {
	Turn
	http.ResponseWriter
	n      int    // of the answer
	model  string // as it was asked for
	stream bool
	done   <-chan struct{}
	told   bool
}

// question is what is read of a request, whatever the dialect.
type question struct {
	Model  string            `json:"model"`
	Stream bool              `json:"stream"`
	Tools  []json.RawMessage `json:"tools"`
}

// maxBody is how much of a request is kept.
const maxBody = 256 << 20

func (m *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client is gone
	}
	path := r.URL.Path
	var say func(*answer)
	var q question
	_ = json.Unmarshal(body, &q) // what is wrong shows as an empty model
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/models"):
		writeJSON(w, map[string]any{"object": "list", "data": []any{map[string]any{"id": "scripted", "object": "model", "type": "model"}}})
	case strings.HasSuffix(path, "/count_tokens"):
		writeJSON(w, map[string]any{"input_tokens": 100})
	case strings.HasSuffix(path, "/messages"):
		say = (*answer).anthropic
	case strings.HasSuffix(path, "/chat/completions"):
		say = (*answer).chat
	case strings.HasSuffix(path, "/responses"):
		say = (*answer).responses
	case strings.HasSuffix(path, "enerateContent"): // also streamGenerateContent
		model, method, _ := strings.Cut(path[strings.LastIndex(path, "/")+1:], ":")
		q.Model, q.Stream = model, method == "streamGenerateContent"
		say = (*answer).gemini
	default:
		http.NotFound(w, r)
	}
	a := m.take(r, body, q, say != nil)
	if say == nil {
		return
	}
	a.ResponseWriter, a.done = w, r.Context().Done()
	a.wait(a.Hang)
	if a.Status != 0 {
		a.fail(path)
		return
	}
	say(a)
}

// take records a request and returns its answer.
func (m *Server) take(r *http.Request, body []byte, q question, asks bool) *answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body, Time: time.Now(), Turn: -1}
	a := &answer{model: q.Model, stream: q.Stream}
	switch {
	case !asks:
	case m.script.Aux != "" && len(q.Tools) == 0:
		rec.Aux, a.Turn = true, Turn{Text: m.script.Aux}
	case len(m.script.Turns) > 0:
		rec.Turn = min(m.next, len(m.script.Turns)-1)
		m.next++
		a.Turn = m.script.Turns[rec.Turn]
	}
	if asks {
		m.made++
		a.n = m.made
	}
	if a.Input == 0 {
		a.Input = 100
	}
	if a.Output == 0 {
		a.Output = 25
	}
	m.requests = append(m.requests, rec)
	return a
}

// fail answers with an error, in the dialect of the path.
func (a *answer) fail(path string) {
	kinds := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}
	kind := kinds[a.Status]
	text := a.Error
	if text == "" {
		text = "scripted failure"
	}
	var v any = map[string]any{"error": map[string]any{"type": kind, "message": text, "code": kind}}
	switch {
	case strings.HasSuffix(path, "/messages"):
		v = map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": text}}
	case strings.HasSuffix(path, "enerateContent"):
		v = map[string]any{"error": map[string]any{"code": a.Status, "message": text, "status": strings.ToUpper(kind)}}
	}
	a.Header().Set("Content-Type", "application/json")
	a.WriteHeader(a.Status)
	_ = json.NewEncoder(a).Encode(v) // the client may be gone
}

// pieces cuts a text into what comes at once.
func (a *answer) pieces(text string) []string {
	if text == "" {
		return nil
	}
	size := max(8, len(text)/6)
	var list []string
	for len(text) > size {
		at := size
		for at < len(text) && text[at]&0xc0 == 0x80 { // not within a character
			at++
		}
		list, text = append(list, text[:at]), text[at:]
	}
	return append(list, text)
}

// wait lets time pass, unless the client goes.
func (a *answer) wait(d Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-a.done:
		panic(http.ErrAbortHandler)
	case <-time.After(time.Duration(d)):
	}
}

// event writes one server-sent event; with no name only its data.
func (a *answer) event(name string, v any) {
	data, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // it is the tests' own
		}
		data = string(b)
	}
	a.Header().Set("Content-Type", "text/event-stream")
	if name != "" {
		name = "event: " + name + "\n"
	}
	_, _ = fmt.Fprintf(a, "%sdata: %s\n\n", name, data) // the client may be gone
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// piece tells that a piece of text was written, and waits; a cut answer ends
// after the first.
func (a *answer) piece() {
	if !a.told && a.Told != nil {
		a.Told <- time.Now()
	}
	a.told = true
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
	a.wait(a.Pause)
}

// over ends an answer that had no text to be cut in.
func (a *answer) over() {
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
