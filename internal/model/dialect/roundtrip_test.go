package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

var everyDialect = []Name{Anthropic, OpenAI, Responses, Gemini}

func dialectOf(t interface{ Fatal(...any) }, n Name) Dialect {
	d, err := Of(n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var (
	aText = rapid.StringMatching(`[a-zA-Zäß世🙂"\\<>&\n]{1,12}`).Filter(func(s string) bool { return strings.TrimSpace(s) != "" })
	aName = rapid.StringMatching(`[a-z_][a-z_0-9]{0,8}`)
	aJSON = rapid.Custom(func(t *rapid.T) json.RawMessage {
		b, err := encode(map[string]any{aName.Draw(t, "k"): rapid.OneOf(rapid.Just[any](1.5), rapid.Just[any](nil), rapid.Map(aText, func(s string) any { return s })).Draw(t, "v")})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	aPicture = rapid.Custom(func(t *rapid.T) Part {
		if rapid.Bool().Draw(t, "url") {
			return Part{Type: ImagePart, URL: "https://x.example/" + aName.Draw(t, "path")}
		}
		return Part{Type: ImagePart, MediaType: "image/png", Data: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "data")}
	})
)

// drawMessages is one that every dialect can hold: a system's text, then users
// and assistants in turn, calls answered at once.
func drawMessages(t *rapid.T) []Message {
	list := []Message{{Role: System, Parts: []Part{{Type: TextPart, Text: aText.Draw(t, "system")}}}}
	var open []Part
	for i := range rapid.IntRange(1, 5).Draw(t, "turns") {
		user := Message{Role: User}
		for _, u := range open {
			r := Part{Type: ToolResult, ID: u.ID, Parts: []Part{{Type: TextPart, Text: aText.Draw(t, "result")}}}
			user.Parts = append(user.Parts, r)
		}
		if len(open) == 0 {
			user.Parts = append(user.Parts, Part{Type: TextPart, Text: aText.Draw(t, "text")})
			if rapid.Bool().Draw(t, "picture") {
				user.Parts = append(user.Parts, aPicture.Draw(t, "picture"))
			}
		}
		said := Message{Role: Assistant, Parts: []Part{{Type: TextPart, Text: aText.Draw(t, "said")}}}
		open = nil
		for j := range rapid.IntRange(0, 2).Draw(t, "calls") {
			id := fmt.Sprintf("call_%d", 1+i*10+j)
			if rapid.Bool().Draw(t, "strange") {
				id = fmt.Sprintf("functions.Bash:%d %d", i, j)
			}
			open = append(open, Part{Type: ToolUse, ID: id, Name: aName.Draw(t, "tool"), Input: aJSON.Draw(t, "input")})
		}
		said.Parts = append(said.Parts, open...)
		list = append(list, user, said)
	}
	if len(open) > 0 {
		m := Message{Role: User}
		for _, u := range open {
			m.Parts = append(m.Parts, Part{Type: ToolResult, ID: u.ID, Parts: []Part{{Type: TextPart, Text: aText.Draw(t, "result")}}})
		}
		list = append(list, m)
	}
	return list
}

func drawRequest(t *rapid.T) *Request {
	q := &Request{Model: "m-1", Messages: drawMessages(t), MaxTokens: rapid.IntRange(1, 9999).Draw(t, "most"), Stream: rapid.Bool().Draw(t, "stream")}
	for i := range rapid.IntRange(0, 3).Draw(t, "tools") {
		q.Tools = append(q.Tools, Tool{Name: fmt.Sprintf("tool_%d", i), Description: aText.Draw(t, "about"), Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)})
	}
	if len(q.Tools) > 0 {
		q.ToolChoice = rapid.SampledFrom([]string{"", "none", "required", "tool_0"}).Draw(t, "choice")
	}
	if rapid.Bool().Draw(t, "temperature") {
		v := 0.5
		q.Temperature = &v
	}
	if rapid.Bool().Draw(t, "schema") {
		q.Schema = json.RawMessage(`{"type":"object","properties":{"b":{"type":"number"}}}`)
	}
	return q
}

// sendAndRead encodes q as a client's request in a dialect, and decodes it.
func sendAndRead(t *rapid.T, d Dialect, q *Request) *Request {
	r, err := d.NewRequest("https://api.example/v1", "key", q)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.ReadRequest(r, b)
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	got.IncludeUsage = false
	return got
}

// normalize removes differences between dialects: texts that a dialect joins, and ids that
// it lacks.
func normalize(q *Request, n Name) *Request {
	c := *q
	c.Messages = nil
	ids := map[string]string{}
	for _, m := range q.Messages {
		var parts []Part
		for _, p := range m.Parts {
			if p.Type == ToolUse && n == Gemini {
				ids[p.ID] = fmt.Sprintf("id%d", len(ids))
				p.Signature = ""
			}
			if id, ok := ids[p.ID]; ok {
				p.ID = id
			}
			if p.Type == ImagePart && p.URL != "" {
				p.MediaType = ""
			}
			parts = append(parts, p)
		}
		c.Messages = append(c.Messages, Message{Role: m.Role, Parts: parts})
	}
	return &c
}

func TestRequestsComeBackAsTheyWere(t *testing.T) {
	for _, n := range everyDialect {
		t.Run(string(n), func(t *testing.T) {
			rapidtest.Check(t, func(t *rapid.T) {
				q := drawRequest(t)
				got := sendAndRead(t, dialectOf(t, n), q)
				if d := cmp.Diff(normalize(q, n), normalize(got, n)); d != "" {
					t.Fatal(d)
				}
			})
		})
	}
}

func TestRequestsComeThroughTwoDialects(t *testing.T) {
	for _, first := range everyDialect {
		for _, second := range everyDialect {
			t.Run(string(first)+" "+string(second), func(t *testing.T) {
				rapidtest.Check(t, func(t *rapid.T) {
					q := drawRequest(t)
					got := sendAndRead(t, dialectOf(t, second), sendAndRead(t, dialectOf(t, first), q))
					n := first
					if second == Gemini {
						n = Gemini
					}
					if d := cmp.Diff(normalize(q, n), normalize(got, n)); d != "" {
						t.Fatal(d)
					}
				})
			})
		}
	}
}

func anAnswer(t *rapid.T) *Response {
	a := &Response{ID: "id-1", Model: "m-2", Stop: StopEnd, Usage: Usage{Input: 7, Output: 5, CacheRead: 2}}
	if rapid.Bool().Draw(t, "thinks") {
		a.Parts = append(a.Parts, Part{Type: ThinkingPart, Text: aText.Draw(t, "thought")})
	}
	if rapid.Bool().Draw(t, "text") {
		a.Parts = append(a.Parts, Part{Type: TextPart, Text: aText.Draw(t, "said")})
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
		a.Stop = StopTool
		in := aJSON.Draw(t, "input")
		if rapid.Bool().Draw(t, "nothing") {
			in = json.RawMessage("{}")
		}
		a.Parts = append(a.Parts, Part{Type: ToolUse, ID: fmt.Sprintf("call:%d", i), Name: aName.Draw(t, "tool"), Input: in})
	}
	if rapid.Bool().Draw(t, "short") {
		a.Stop = StopLength
	}
	return a
}

// drawDeltas are a's, cut anywhere.
func drawDeltas(t *rapid.T, a *Response) []Delta {
	var list []Delta
	_ = Replay(a, func(d Delta) error {
		if d.Type == ToolDelta && d.Text == "{}" && rapid.Bool().Draw(t, "bare") {
			return nil
		}
		runes := []rune(d.Text)
		if (d.Type == TextDelta || d.Type == ThinkingDelta || d.Type == ToolDelta) && len(runes) > 1 {
			at := rapid.IntRange(1, len(runes)-1).Draw(t, "cut")
			d.Text = string(runes[:at])
			list = append(list, d)
			d.Text = string(runes[at:])
		}
		list = append(list, d)
		return nil
	})
	return list
}

func TestAnswersComeBackAsTheyWere(t *testing.T) {
	for _, n := range everyDialect {
		t.Run(string(n), func(t *testing.T) {
			rapidtest.Check(t, func(t *rapid.T) {
				d, a, q := dialectOf(t, n), anAnswer(t), &Request{Model: "m-2", IncludeUsage: true}
				w := httptest.NewRecorder()
				if err := d.WriteResponse(w, q, a); err != nil {
					t.Fatal(err)
				}
				got, err := d.ReadResponse(w.Result())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(a, got); diff != "" {
					t.Fatal(diff)
				}
				w = httptest.NewRecorder()
				out := d.NewWriter(w, q)
				for _, p := range drawDeltas(t, a) {
					if err := out.Write(p); err != nil {
						t.Fatal(err)
					}
				}
				var g ResponseBuilder
				text := w.Body.String()
				if rapid.Bool().Draw(t, "crlf") {
					text = strings.ReplaceAll(": a comment\n\n"+text, "\n", "\r\n")
				}
				if err := d.ReadStream(strings.NewReader(text), func(d Delta) error { g.Add(d); return nil }); err != nil {
					t.Fatalf("%v: %s", err, w.Body)
				}
				if diff := cmp.Diff(a, &g.Response); diff != "" {
					t.Fatalf("%s: %s", diff, w.Body)
				}
			})
		})
	}
}

func TestErrorsComeBackAsTheyWere(t *testing.T) {
	for _, n := range everyDialect {
		for _, e := range []Error{
			{401, "authentication", "no", 0},
			{403, "permission", "no", 0},
			{404, "not_found", "no", 0},
			{400, "invalid_request", "no", 0},
			{429, "rate_limit", "slow", 7},
			{503, "overloaded", "busy", 0},
			{500, "internal", "oops", 0},
		} {
			w := httptest.NewRecorder()
			d := dialectOf(t, n)
			d.WriteError(w, &e)
			_, err := d.ReadResponse(w.Result())
			if diff := cmp.Diff(error(&e), err); diff != "" {
				t.Errorf("%s: %s", n, diff)
			}
			w = httptest.NewRecorder()
			if err := d.NewWriter(w, &Request{}).Write(Delta{Type: Failed, Err: &e}); err != nil {
				t.Fatal(err)
			}
			err = d.ReadStream(strings.NewReader(w.Body.String()), func(Delta) error { return nil })
			var got *Error
			if !errors.As(err, &got) || got.Message != e.Message {
				t.Errorf("%s: %v from %s", n, err, w.Body)
			}
		}
	}
}

func TestAStreamCutAnywhereIsAnError(t *testing.T) {
	a := &Response{ID: "i", Model: "m", Stop: StopTool, Parts: []Part{{Type: TextPart, Text: "hello"}, {Type: ToolUse, ID: "c", Name: "n", Input: json.RawMessage(`{"a":1}`)}}}
	for _, n := range everyDialect {
		d := dialectOf(t, n)
		w := httptest.NewRecorder()
		if err := Replay(a, d.NewWriter(w, &Request{}).Write); err != nil {
			t.Fatal(err)
		}
		text := w.Body.String()
		whole := 0
		for i := range len(text) {
			ended := false
			err := d.ReadStream(strings.NewReader(text[:i]), func(d Delta) error { ended = ended || d.Type == End; return nil })
			if (err == nil) != ended {
				t.Fatalf("%s: at %d: ended %v, %v", n, i, ended, err)
			}
			if err == nil {
				whole++
			}
		}
		if whole > len(text)/4+20 {
			t.Errorf("%s: %d of %d cuts are taken for whole", n, whole, len(text))
		}
	}
}
