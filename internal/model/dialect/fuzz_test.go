package dialect

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// addSeeds are streams and answers of every dialect.
func addSeeds(f *testing.F) {
	a := &Response{ID: "i", Model: "m", Stop: StopTool, Usage: Usage{Input: 3, Output: 4}, Parts: []Part{
		{Type: ThinkingPart, Text: "hm", Signature: "s"}, {Type: TextPart, Text: "hello"}, {Type: ToolUse, ID: "c", Name: "n", Input: json.RawMessage(`{"a":1}`)},
	}}
	for _, n := range everyDialect {
		d := dialectOf(f, n)
		w := httptest.NewRecorder()
		if err := Replay(a, d.NewWriter(w, &Request{IncludeUsage: true}).Write); err != nil {
			f.Fatal(err)
		}
		f.Add(w.Body.String())
		w = httptest.NewRecorder()
		if err := d.WriteResponse(w, &Request{}, a); err != nil {
			f.Fatal(err)
		}
		f.Add(w.Body.String())
	}
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1}]}}]}\n\ndata: [DONE]\n\n")
	f.Add("event: error\r\ndata:[]\r\n\r\n: x\rdata")
	f.Add(`[{"error":{"message":"x"}}]`)
}

// FuzzAnswers reads streams and answers of an API: nothing panics, and each decoded answer
// can be encoded in every dialect.
func FuzzAnswers(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		for _, n := range everyDialect {
			d := dialectOf(t, n)
			var g ResponseBuilder
			ends := 0
			err := d.ReadStream(strings.NewReader(text), func(d Delta) error {
				if g.Add(d); d.Type == End {
					ends++
				}
				return nil
			})
			if (err == nil) != (ends == 1) {
				t.Errorf("%s: %d ends, %v", n, ends, err)
			}
			a, aerr := d.ReadResponse(&http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(text))})
			if err == nil {
				tellAll(t, &g.Response)
			}
			if aerr == nil {
				tellAll(t, a)
			}
			m := Meter{API: n}
			m.ReadEvent([]byte(text))
			m.ReadResponse([]byte(text))
			if m.TextBytes < 0 || m.Usage.Output < 0 || m.Usage.Input < 0 {
				t.Errorf("%s: %+v", n, m)
			}
			ReadError(&http.Response{StatusCode: 500, Body: io.NopCloser(strings.NewReader(text))})
		}
	})
}

func tellAll(t *testing.T, a *Response) {
	t.Helper()
	for _, n := range everyDialect {
		d := dialectOf(t, n)
		w := httptest.NewRecorder()
		if err := Replay(a, d.NewWriter(w, &Request{}).Write); err != nil {
			t.Errorf("%s: %v", n, err)
		}
		if err := d.ReadStream(strings.NewReader(w.Body.String()), func(Delta) error { return nil }); err != nil {
			t.Errorf("%s: what was written is not read: %v: %s", n, err, w.Body)
		}
		w = httptest.NewRecorder()
		if err := d.WriteResponse(w, &Request{}, a); err != nil {
			t.Errorf("%s: %v", n, err)
		}
		if _, err := d.ReadResponse(w.Result()); err != nil {
			t.Errorf("%s: what was written is not read: %v: %s", n, err, w.Body)
		}
	}
}

// FuzzRequests reads bodies that a client may send: nothing panics, and what
// is read can be asked in every dialect.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","max_tokens":1,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"image","source":{"type":"base64","data":"AA=="}}]}]}],"tools":[{"type":"web_search_20250305","name":"w"}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"","content":"x"}],"tools":[{"type":"function","function":{"name":"a b"}}]}`,
		`{"input":[{"type":"function_call","call_id":"c","namespace":"n","name":"t","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}],"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"t"}]},{"type":"custom","name":"p","format":{"definition":"start: x"}}]}`,
		`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}]}`,
		`{"generateContentRequest":{"contents":[]}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, n := range everyDialect {
			r := httptest.NewRequest(http.MethodPost, "/v1beta/models/m:generateContent", nil)
			q, err := dialectOf(t, n).ReadRequest(r, []byte(body))
			if err != nil {
				continue
			}
			EstimateRequest(q)
			fitted, _ := FitToolNames(q)
			for _, to := range everyDialect {
				out, err := dialectOf(t, to).NewRequest("https://x", "k", fitted)
				if err != nil {
					t.Errorf("%s to %s: %v", n, to, err)
					continue
				}
				b, err := io.ReadAll(out.Body)
				if err != nil || !json.Valid(b) {
					t.Errorf("%s to %s: %v: %s", n, to, err, b)
				}
				if _, err := dialectOf(t, to).ReadRequest(out, b); err != nil {
					t.Errorf("%s to %s: %v: %s", n, to, err, b)
				}
			}
		}
	})
}
