package dialect_test

import (
	"errors"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

func TestBodiesOfTooManyPiecesAreRefusedBeforeAnythingIsMadeOfThem(t *testing.T) {
	many := func(n int, s string) string { return strings.Repeat(s+",", n-1) + s }
	for law, c := range map[string]struct {
		n    dialect.Name
		body string
	}{
		"Messages":  {dialect.OpenAI, `{"model":"m","messages":[` + many(10_001, `{"role":"user","content":""}`) + `]}`},
		"Parts":     {dialect.OpenAI, `{"model":"m","messages":[{"role":"user","content":[` + many(200_000, `{"type":"text"}`) + `]}]}`},
		"Blocks":    {dialect.Anthropic, `{"model":"m","messages":[{"role":"user","content":[` + many(200_000, `{"type":"text"}`) + `]}]}`},
		"Nulls":     {dialect.Anthropic, `{"model":"m","messages":[{"role":"user","content":[` + many(400_000, `null`) + `]}]}`},
		"Tools":     {dialect.Anthropic, `{"model":"m","tools":[` + many(1_000_000, `{}`) + `],"messages":[]}`},
		"ToolsCase": {dialect.Anthropic, `{"model":"m","TOOLS":[` + many(2_001, `{}`) + `],"messages":[]}`},
		"Functions": {dialect.Gemini, `{"contents":[],"tools":[{"functionDeclarations":[` + many(2_001, `{}`) + `]}]}`},
		"Input":     {dialect.Responses, `{"model":"m","input":[` + many(50_000, `{"role":"user","content":"x"}`) + `]}`},
		"Metadata":  {dialect.OpenAI, `{"model":"m","messages":[],"metadata":{` + many(400_000, `"a":"b"`) + `}}`},
		"Nested":    {dialect.Anthropic, `{"model":"m","messages":[{"role":"user","content":` + strings.Repeat(`[{"type":"tool_result","content":`, 200) + `""` + strings.Repeat(`}]`, 200) + `}]}`},
	} {
		t.Run(law, func(t *testing.T) {
			d, err := dialect.Of(c.n)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest("POST", "/v1beta/models/m:generateContent", nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = d.ReadRequest(r, []byte(c.body))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, atoll.ErrInvalid) {
				t.Errorf("error %.200v", err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > uint64(4*len(c.body)+4<<20) {
				t.Errorf("%d bytes were made of %d", n, len(c.body))
			}
		})
	}
}

func TestBoundAgreesWithJSON(t *testing.T) {
	for body, ok := range map[string]bool{
		`{}`: true, `{"a":[1,-2.5e3,true,null,"x\"]}",{"b":{}},[]]}`: true, ` { "a" : [ ] , "b\u0061" : "\\" } `: true, `"a"`: true, `1`: true,
		``: false, `{"a":}`: false, `[`: false, `{"a":1}}`: false,
	} {
		if err := dialect.CheckLimits([]byte(body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestReachesFindsWhatAnAPIWouldFetch(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://evil"}}]}]}`:                                      "url",
		`{"messages":[{"content":[{"type":"image_url","image_url":"https://evil"}]}]}`:                                              "image_url",
		`{"messages":[{"content":[{"type":"image_url","image_url":{"u\u0072l":"\u0068ttps://evil"}}]}]}`:                            "url",
		`{"messages":[{"content":[{"source":{"url":"data:image/png;base64,AA","url":"https://evil"}}]}]}`:                           "url",
		`{"messages":[{"content":[{"type":"file","file":{"file_data":"https://evil"}}]}]}`:                                          "file_data",
		`{"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}`:                              "file_id",
		`{"contents":[{"parts":[{"fileData":{"fileUri":"gs://evil"}}]}]}`:                                                           "fileuri",
		`{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"https://evil"}]}]}`:                  "image_url",
		`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}]}`:                          "",
		`{"messages":[{"content":[{"type":"tool_use","input":{"url":"https://fine"}}]}]}`:                                           "",
		`{"contents":[{"parts":[{"functionCall":{"args":{"url":"https://fine"}}}]}]}`:                                               "",
		`{"messages":[{"content":"see https://fine"}],"tools":[{"name":"a","input_schema":{"examples":[{"url":"https://fine"}]}}]}`: "",
	} {
		if got, err := dialect.FindRemoteURL([]byte(body)); got != want || err != nil {
			t.Errorf("%s: %q %v", body, got, err)
		}
	}
}
