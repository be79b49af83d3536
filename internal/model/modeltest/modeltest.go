// Package modeltest is a fake model API for tests: it answers from a script, in every
// dialect.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Script is the list of the model's answers, one Turn for each request; further requests
// repeat the last one. It is decoded from the script.json of recorded transcripts.
type Script struct {
	Turns []Turn `json:"turns"`

	// Aux, if set, is the answer to requests without tools, such as those for
	// titles and summaries; they then use no Turn.
	Aux string `json:"aux,omitempty"`
}

// Turn is one answer.
type Turn struct {
	Text     string   `json:"text,omitempty"`
	Thinking string   `json:"thinking,omitempty"`
	Tools    []Use    `json:"tools,omitempty"`
	Status   int      `json:"status,omitempty"` // of an error instead of an answer
	Error    string   `json:"error,omitempty"`  // its message
	Retry    int      `json:"retry,omitempty"`  // seconds of its Retry-After; 0: without the header
	Hang     Duration `json:"hang,omitempty"`   // before the answer begins
	Pause    Duration `json:"pause,omitempty"`  // between parts of the text
	Cut      bool     `json:"cut,omitempty"`    // close the connection in the middle
	Stop     string   `json:"stop,omitempty"`   // "length", "refused"; empty: the usual one
	Input    int64    `json:"input,omitempty"`  // reported tokens; 0: 100
	Output   int64    `json:"output,omitempty"` // reported tokens; 0: 25

	// FirstPiece, when not nil, receives the time at which the first part of the
	// answer was written.
	FirstPiece chan<- time.Time `json:"-"`
}

// Use is a tool call.
type Use struct {
	Name      string          `json:"name"`
	Namespace string          `json:"namespace,omitempty"` // of responses only
	Input     json.RawMessage `json:"input"`
}

func (u Use) inputJSON() string {
	if len(u.Input) == 0 {
		return "{}"
	}
	return string(u.Input)
}

// Duration is encoded as "1.5s".
type Duration time.Duration

// UnmarshalText decodes "1.5s".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// Server is the fake API. URL is its base, for every dialect; a version before a path
// ("/v1") is ignored.
type Server struct {
	*httptest.Server

	mu       sync.Mutex
	script   Script    // guarded by mu
	next     int       // guarded by mu: index in script.Turns
	made     int       // guarded by mu: number of answers
	requests []Request // guarded by mu
	usage    Usage     // guarded by mu
}

// Usage is the usage of all answers, counted by the server.
type Usage struct {
	Requests      int64 // with a whole answer
	Input, Output int64 // tokens of these
	Broken        int64 // requests whose answer was not whole, since the client left or the script says so
}

// Usage returns the usage so far.
func (m *Server) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage
}

// Request is a received request.
type Request struct {
	Method string
	Path   string
	Header http.Header
	Body   []byte
	Aux    bool
	Turn   int // of the script, from 0
	Time   time.Time
}

// New starts a server that is closed with the test.
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

// Requests returns the requests so far.
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

// answer is one turn that is written to a client.
type answer struct {
	Turn
	http.ResponseWriter
	n        int    // of the answer
	model    string // as it was asked for
	stream   bool
	done     <-chan struct{}
	reported bool
}

// requestBody has the members of a request that the server reads.
type requestBody struct {
	Model  string            `json:"model"`
	Stream bool              `json:"stream"`
	Tools  []json.RawMessage `json:"tools"`
}

// maxBody limits the stored bytes of a request.
const maxBody = 256 << 20

func (m *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client disconnected
	}
	path := r.URL.Path
	var say func(*answer)
	var q requestBody
	_ = json.Unmarshal(body, &q) // an error shows as an empty model
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/models"):
		writeJSON(w, map[string]any{"object": "list", "data": []any{map[string]any{"id": "scripted", "object": "model", "type": "model"}}})
	case strings.HasSuffix(path, "/count_tokens"):
		writeJSON(w, map[string]any{"input_tokens": 100})
	case strings.HasSuffix(path, "/messages"):
		say = (*answer).answerAnthropic
	case strings.HasSuffix(path, "/chat/completions"):
		say = (*answer).answerChat
	case strings.HasSuffix(path, "/responses"):
		say = (*answer).answerResponses
	case strings.HasSuffix(path, "enerateContent"): // also streamGenerateContent
		model, method, _ := strings.Cut(path[strings.LastIndex(path, "/")+1:], ":")
		q.Model, q.Stream = model, method == "streamGenerateContent"
		say = (*answer).answerGemini
	default:
		http.NotFound(w, r)
	}
	a := m.recordRequest(r, body, q, say != nil)
	if say == nil {
		return
	}
	a.ResponseWriter, a.done = w, r.Context().Done()
	whole := false
	defer func() { m.count(a, whole) }()
	a.wait(a.Hang)
	if a.Status != 0 {
		a.writeError(path)
		return
	}
	say(a)
	whole = r.Context().Err() == nil
}

// count counts an answer.
func (m *Server) count(a *answer, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case whole:
		m.usage.Requests++
		m.usage.Input += a.Input
		m.usage.Output += a.Output
	case a.Status == 0:
		m.usage.Broken++
	}
}

// recordRequest records a request and returns its answer.
func (m *Server) recordRequest(r *http.Request, body []byte, q requestBody, asks bool) *answer {
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

// writeError writes an error, in the dialect of the path.
func (a *answer) writeError(path string) {
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
	if a.Retry > 0 {
		a.Header().Set("Retry-After", strconv.Itoa(a.Retry))
	}
	a.Header().Set("Content-Type", "application/json")
	a.WriteHeader(a.Status)
	_ = json.NewEncoder(a).Encode(v) // the client may have disconnected
}

// splitText splits a text into parts to write one by one.
func (a *answer) splitText(text string) []string {
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

// wait waits, unless the client disconnects.
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

// writeEvent writes one server-sent event; without a name only its data.
func (a *answer) writeEvent(name string, v any) {
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
	_, _ = fmt.Fprintf(a, "%sdata: %s\n\n", name, data) // the client may have disconnected
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// pauseAfterPiece reports that a part of the text was written, and waits; a cut answer
// ends after the first part.
func (a *answer) pauseAfterPiece() {
	if !a.reported && a.FirstPiece != nil {
		a.FirstPiece <- time.Now()
	}
	a.reported = true
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
	a.wait(a.Pause)
}

// endCut ends a cut answer that had no text.
func (a *answer) endCut() {
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}
