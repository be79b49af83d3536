package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

func TestBudgets(t *testing.T) {
	prices := map[string]model.Price{"*": {Input: 1000, Output: 2000}}
	for _, c := range []struct {
		name   string
		budget agent.Budget
		prices map[string]model.Price
		passed int // requests of 100 tokens of input and 25 of output
		says   string
	}{
		{"Requests", agent.Budget{Requests: 3}, nil, 3, "3 requests"},
		{"Input", agent.Budget{Input: 250}, nil, 3, "250 tokens of input"},
		{"InputToTheToken", agent.Budget{Input: 200}, nil, 2, "200 tokens of input"},
		{"Output", agent.Budget{Output: 50}, nil, 2, "50 tokens of output"},
		{"Tokens", agent.Budget{Tokens: 240}, nil, 2, "240 tokens"},
		{"Cost", agent.Budget{Cost: 0.3}, prices, 2, "0.3 US dollars"},
		{"CostWithoutAPrice", agent.Budget{Cost: 1}, nil, 0, "no price for the model big"},
		{"Time", agent.Budget{Time: time.Minute}, nil, 1, "1m0s"},
	} {
		for client, q := range questions {
			t.Run(c.name+" "+string(client), func(t *testing.T) {
				now := time.Now()
				s := open(t, dialect.Anthropic, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, func(a *model.Access) {
					a.Limits = []model.Limit{{Caller: model.Caller{Chat: "other"}, Budget: agent.Budget{Requests: 1}}, {Caller: model.Caller{Chat: "c"}, Budget: c.budget}}
					a.Connector.Prices = c.prices
					if c.budget.Time > 0 {
						a.Now = func() time.Time { return now }
					}
				})
				passed := 0
				for range 6 {
					status, text := s.post(t, q.path, q.whole)
					now = now.Add(time.Hour)
					if status == 200 {
						passed++
						continue
					}
					if status != 403 || !strings.Contains(text, "atoll: budget of the chat") || !strings.Contains(text, c.says) {
						t.Fatalf("%d: %s", status, text)
					}
				}
				if passed != c.passed {
					t.Errorf("%d requests passed, want %d", passed, c.passed)
				}
			})
		}
	}
}

func TestParallelRequestsDontPassABudgetOfRequests(t *testing.T) {
	ledger := model.NewLedger()
	up := modeltest.New(t, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}})
	var passed atomic.Int64
	var g sync.WaitGroup
	for i := range 20 {
		g.Go(func() {
			a := &model.Access{ // each of its own turn
				Connector: model.Connector{Name: "test", API: dialect.OpenAI, Base: up.URL, Model: "big"},
				Caller:    model.Caller{Owner: atoll.Local, Turn: fmt.Sprint(i)}, Ledger: ledger,
				Limits: []model.Limit{{Caller: model.Caller{Owner: atoll.Local}, Budget: agent.Budget{Requests: 7}}},
			}
			for range 3 {
				_, err := a.Ask(t.Context(), &dialect.Request{}, nil)
				if err == nil {
					passed.Add(1)
				} else if !errors.Is(err, atoll.ErrQuota) {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	if n := passed.Load(); n != 7 || len(up.Requests()) != 7 {
		t.Errorf("%d of %d requests passed, want 7", n, len(up.Requests()))
	}
}

// dripAnswer is an API that writes a word each time a channel allows it.
func dripAnswer(let <-chan bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(v any) {
			b, _ := json.Marshal(v)
			fmt.Fprintf(w, "data: %s\n\n", b)
			_ = http.NewResponseController(w).Flush()
		}
		type o = map[string]any
		say(o{"type": "message_start", "message": o{"usage": o{"input_tokens": 10}}})
		say(o{"type": "content_block_start", "index": 0, "content_block": o{"type": "text"}})
		for {
			select {
			case <-let:
				say(o{"type": "content_block_delta", "index": 0, "delta": o{"type": "text_delta", "text": strings.Repeat("word", 100)}})
			case <-r.Context().Done():
				return
			}
		}
	}
}

func TestAStreamIsCutWhenABudgetIsPassed(t *testing.T) {
	for _, client := range []dialect.Name{dialect.Anthropic, dialect.OpenAI, dialect.Responses, dialect.Gemini} {
		t.Run(string(client), func(t *testing.T) {
			let := make(chan bool, 100)
			for range 100 {
				let <- true
			}
			s := newHostileAPI(t, dialect.Anthropic, dripAnswer(let), func(a *model.Access) {
				a.Limits = []model.Limit{{Caller: model.Caller{Turn: "t"}, Budget: agent.Budget{Output: 1000}}}
			})
			q := questions[client]
			status, text := s.post(t, pathOf(q.path, true), q.stream)
			if status != 200 || !strings.Contains(text, "atoll: budget of the turn used up: 1000 tokens of output") {
				t.Errorf("%d: %.500s", status, text)
			}
			if n := strings.Count(text, "wordword"+strings.Repeat("word", 98)); n < 9 || n > 13 {
				t.Errorf("%d words came", n)
			}
			if u := s.Usage(); u.Output < 1000 || u.Output > 1300 || u.Input != 10 {
				t.Errorf("spent %+v", u)
			}
		})
	}
}

func TestAStreamIsCutWhenItsTimeIsOver(t *testing.T) {
	for _, client := range []dialect.Name{dialect.Anthropic, dialect.OpenAI} {
		s := newHostileAPI(t, dialect.Anthropic, dripAnswer(nil), func(a *model.Access) {
			a.Limits = []model.Limit{{Caller: model.Caller{Turn: "t"}, Budget: agent.Budget{Time: 100 * time.Millisecond}}}
		})
		status, text := s.post(t, questions[client].path, questions[client].stream)
		if status != 200 || !strings.Contains(text, "atoll: budget of the turn used up: 100ms") {
			t.Errorf("%d: %s", status, text)
		}
	}
}

func TestWhatAnAPIDoesNotTellIsGuessed(t *testing.T) {
	for _, client := range []dialect.Name{dialect.OpenAI, dialect.Anthropic} {
		for _, stream := range []bool{true, false} {
			s := newHostileAPI(t, dialect.OpenAI, func(w http.ResponseWriter, r *http.Request) {
				if !stream {
					_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"`+strings.Repeat("word", 100)+`"}}]}`)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\ndata: [DONE]\n\n", strings.Repeat("word", 100))
			}, nil)
			q := questions[client]
			body := q.whole
			if stream {
				body = q.stream
			}
			if status, text := s.post(t, q.path, body); status != 200 {
				t.Fatalf("%d: %s", status, text)
			}
			if u := s.Usage(); u.Output < 90 || u.Output > 150 || u.Input < 10 || u.Input > 100 {
				t.Errorf("%s, %v: spent %+v", client, stream, u)
			}
		}
	}
}

// brokenLedger is a Ledger that can't be written, or read.
type brokenLedger struct{ read, write error }

func (b brokenLedger) Charge(context.Context, model.Caller, model.Usage) error { return b.write }
func (b brokenLedger) Usage(context.Context, model.Caller) (model.Usage, error) {
	return model.Usage{}, b.read
}

func TestALedgerThatFailsLetsNothingThrough(t *testing.T) {
	for _, l := range []brokenLedger{{read: errors.New("disk")}, {write: errors.New("disk")}} {
		for client, q := range questions {
			s := open(t, dialect.Anthropic, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}, func(a *model.Access) {
				a.Ledger, a.Limits = l, []model.Limit{{Budget: agent.Budget{Requests: 5}}}
			})
			status, text := s.post(t, q.path, q.whole)
			if status != 503 && status != 502 {
				t.Errorf("%s: %d: %s", client, status, text)
			}
			_, text = s.post(t, pathOf(q.path, true), q.stream)
			if !strings.Contains(text, "disk") || strings.Contains(text, "message_stop") || strings.Contains(text, "[DONE]") {
				t.Errorf("%s: %s", client, text)
			}
		}
	}
}

// reportedLedger compares what is charged with what was reported before.
type reportedLedger struct {
	model.Ledger

	t        *testing.T
	reported model.Usage
	charged  int
}

func (l *reportedLedger) Charge(ctx context.Context, w model.Caller, u model.Usage) error {
	l.charged++
	if l.reported.Usage != u.Usage || l.reported.Cost != u.Cost {
		l.t.Errorf("%+v is charged, %+v was reported", u, l.reported)
	}
	return l.Ledger.Charge(ctx, w, u)
}

// TestUsageIsReportedBeforeItIsCharged: a process that is killed while it charges must have reported the usage.
func TestUsageIsReportedBeforeItIsCharged(t *testing.T) {
	for client, q := range questions {
		l := &reportedLedger{Ledger: model.NewLedger(), t: t}
		after := 0
		s := open(t, dialect.Anthropic, modeltest.Script{Turns: []modeltest.Turn{{Text: "a long answer"}}}, func(a *model.Access) {
			a.Ledger = l
			a.Progress = func(_ int64, u model.Usage, charged bool) {
				l.reported = u
				if charged {
					after++
				}
			}
		})
		for _, request := range [][2]string{{q.path, q.whole}, {pathOf(q.path, true), q.stream}} {
			if status, text := s.post(t, request[0], request[1]); status != http.StatusOK {
				t.Fatalf("%s: %d: %s", client, status, text)
			}
		}
		if l.charged != 2 || after != 2 || l.reported.Output != 25 {
			t.Errorf("%s: charged %d times, reported %d times, at last %+v", client, l.charged, after, l.reported)
		}
	}
}

func TestLogLinesHoldNoText(t *testing.T) {
	var mu sync.Mutex
	var lines []model.LogEntry
	s := open(t, dialect.OpenAI, modeltest.Script{Turns: []modeltest.Turn{{Text: "a secret answer"}}}, func(a *model.Access) {
		a.Log = func(l model.LogEntry) { mu.Lock(); defer mu.Unlock(); lines = append(lines, l) }
		a.Limits = []model.Limit{{Budget: agent.Budget{Requests: 4}}}
		a.Connector.Prices = map[string]model.Price{"big": {Input: 1e4}}
	})
	for client, q := range questions {
		if client == dialect.Gemini {
			continue
		}
		s.post(t, q.path, strings.Replace(q.stream, "hi", "a secret question", 1))
	}
	s.post(t, "/v1/messages", small)
	s.post(t, "/v1/messages", small)
	mu.Lock()
	defer mu.Unlock()
	if len(lines) != 5 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, l := range lines {
		if text := fmt.Sprintf("%+v", l); strings.Contains(text, "secret") {
			t.Errorf("%s", text)
		}
		if i < 4 && (l.Status != 200 || l.Usage.Input != 100 || l.Cost != 1 || l.FirstByte <= 0 || l.Duration < l.FirstByte || l.Model != "big") {
			t.Errorf("%+v", l)
		}
	}
	if l := lines[4]; l.Status != 403 || l.Refused == "" {
		t.Errorf("%+v", l)
	}
}
