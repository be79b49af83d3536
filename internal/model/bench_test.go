package model_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// largeRequest is a question as an agent's: 86 kB of instructions and tools.
func largeRequest() string {
	return `{"model":"claude","max_tokens":100,"stream":true,"system":"` + strings.Repeat("instruct ", 8000) + `","messages":[{"role":"user","content":"hi"}],` +
		`"tools":[{"name":"get","description":"` + strings.Repeat("describe ", 1500) + `","input_schema":{"type":"object"}}]}`
}

// newTimedAPI returns an API that reports when it wrote its first word.
func newTimedAPI(b *testing.B, api dialect.Name) (*httptest.Server, chan time.Time) {
	b.Helper()
	at := make(chan time.Time, 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		first, rest := `data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":5}}}`+"\n\n"+`data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}`+"\n\n",
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"first"}}`+"\n\n"
		end := `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
		if api == dialect.OpenAI {
			first, rest = "", `data: {"id":"c","choices":[{"index":0,"delta":{"content":"first"}}]}`+"\n\n"
			end = `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + "data: [DONE]\n\n"
		}
		_, _ = io.WriteString(w, first)
		select {
		case at <- time.Now():
		default:
		}
		_, _ = io.WriteString(w, rest)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, end)
	}))
	b.Cleanup(up.Close)
	return up, at
}

// BenchmarkFirstToken measures the latency of a word from the API to the client as told,
// and the whole request as ns/op.
func BenchmarkFirstToken(b *testing.B) {
	for _, c := range []struct {
		name string
		api  dialect.Name
		bare bool
	}{{"bare", dialect.Anthropic, true}, {"passed", dialect.Anthropic, false}, {"translated", dialect.OpenAI, false}} {
		b.Run(c.name, func(b *testing.B) {
			up, at := newTimedAPI(b, c.api)
			url := up.URL
			if !c.bare {
				a := &model.Access{Connector: model.Connector{Name: "t", API: c.api, Base: up.URL, Key: key, Model: "m"}}
				srv := httptest.NewServer(a.Endpoint())
				defer srv.Close()
				url = srv.URL
			}
			body := largeRequest()
			var told time.Duration
			for b.Loop() {
				r, err := http.Post(url+"/v1/messages", "application/json", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				in := bufio.NewReader(r.Body)
				for {
					line, err := in.ReadString('\n')
					if err != nil {
						b.Fatal(err)
					}
					if strings.Contains(line, "first") {
						told += time.Since(<-at)
						break
					}
				}
				_, _ = io.Copy(io.Discard, in)
				_ = r.Body.Close()
			}
			b.ReportMetric(float64(told.Microseconds())/float64(b.N), "told-µs")
		})
	}
}

func BenchmarkEvents(b *testing.B) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word %d \"}}\n\n", i)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		m := dialect.Meter{API: dialect.Anthropic}
		e := dialect.NewEvents(strings.NewReader(text.String()))
		for {
			v, err := e.Next()
			if err != nil {
				break
			}
			m.ReadEvent(v.Data)
		}
	}
}
