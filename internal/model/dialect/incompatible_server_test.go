package dialect

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// responseText is an answer in a line.
func responseText(a *Response) string {
	var list []string
	for _, p := range a.Parts {
		switch p.Type {
		case TextPart:
			list = append(list, p.Text)
		case ThinkingPart:
			list = append(list, "("+p.Text+")")
		case ToolUse:
			id := p.ID
			if strings.HasPrefix(id, "call_") && len(id) > 20 {
				id = "fresh"
			}
			list = append(list, id+"="+p.Name+string(p.Input))
		}
	}
	return strings.Join(list, " ") + " " + string(a.Stop)
}

func TestStreamsOfServersThatAreAlmostCompatible(t *testing.T) {
	for _, c := range []struct{ name, stream, want string }{
		{"Plain", `{"choices":[{"delta":{"content":"a"}}]}|{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}|[DONE]`, "ab end"},
		{"NoDone", `{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`, "a length"},
		{"NoFinish", `{"choices":[{"delta":{"content":"a"}}]}|[DONE]`, "a end"},
		{"WholeCallInAChunk", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"stop"}]}|[DONE]`, `x=f{"a":1} tool`},
		{"NoID", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}}]}|[DONE]`, "fresh=f{} tool"},
		{"NoArguments", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f"}}]}}]}|[DONE]`, "x=f{} tool"},
		{"EmptyArguments", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}}]}|[DONE]`, "x=f{} tool"},
		{"ArgumentsAreAnObject", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":{"a":1}}}]}}]}|[DONE]`, `x=f{"a":1} tool`},
		{"BrokenArguments", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":"}}]}}]}|[DONE]`, `x=f{"arguments":"{\"a\":"} tool`},
		{"AllHaveIndexZero", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}}]}}]}|{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"y","function":{"name":"g","arguments":"{}"}}]}}]}|[DONE]`, "x=f{} y=g{} tool"},
		{"NoIndex", `{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"y","function":{"name":"g","arguments":"{}"}}]}}]}|[DONE]`, "x=f{} y=g{} tool"},
		{"NeitherIndexNorID", `{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"g","arguments":"{}"}}]}}]}|[DONE]`, "fresh=f{} fresh=g{} tool"},
		{"IDAndNameEachTime", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":"}}]}}]}|{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"2}"}}]}}]}|[DONE]`, `x=f{"a":2} tool`},
		{"Parallel", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{"}}]}}]}|{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}|{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"y","function":{"name":"g","arguments":"{}"}}]}}]}|{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}|[DONE]`, "x=f{} y=g{} tool"},
		{"DeepSeekThinks", `{"choices":[{"delta":{"content":null,"reasoning_content":"h"}}]}|{"choices":[{"delta":{"content":null,"reasoning_content":"m"}}]}|{"choices":[{"delta":{"content":"a","reasoning_content":null}}]}|[DONE]`, "(hm) a end"},
		{"OthersThink", `{"choices":[{"delta":{"reasoning":"hm"}}]}|{"choices":[{"delta":{"content":"a"}}]}|[DONE]`, "(hm) a end"},
		{"OldFunctionCall", `{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{"}}}]}|{"choices":[{"delta":{"function_call":{"arguments":"}"}}}]}|[DONE]`, "fresh=f{} tool"},
		{"NullsEverywhere", `{"id":null,"model":null,"usage":null,"choices":[{"finish_reason":null,"delta":{"role":null,"content":null,"tool_calls":null}}]}|{"choices":[{"delta":{"content":"a"}}]}|[DONE]`, "a end"},
		{"ContentFilter", `{"choices":[{"delta":{"content":"a"},"finish_reason":"content_filter"}]}|[DONE]`, "a refused"},
		{"UsageInEachChunk", `{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}|{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}|[DONE]`, "ab end"},
		{"OtherChoices", `{"choices":[{"index":1,"delta":{"content":"x"}},{"index":0,"delta":{"content":"a"}}]}|[DONE]`, "a end"},
	} {
		for _, form := range []struct{ before, after string }{{"data: ", "\n\n"}, {"data:", "\r\n\r\n"}, {": ping\n\ndata: ", "\n\n"}, {"event: message\nid: 1\nretry: 5\ndata: ", "\n\n"}} {
			text := form.before + strings.ReplaceAll(c.stream, "|", form.after+form.before) + form.after
			var g ResponseBuilder
			err := openai{}.ReadStream(strings.NewReader(text), func(d Delta) error { g.Add(d); return nil })
			if err != nil || responseText(&g.Response) != c.want {
				t.Errorf("%s: %v, %q, want %q", c.name, err, responseText(&g.Response), c.want)
			}
		}
	}
}

func TestStreamsThatAreErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      Dialect
		stream string
		code   string // "" : cut short
	}{
		{"OpenAI", openai{}, `data: {"error":{"message":"busy","type":"server_error"}}` + "\n\n", "internal"},
		{"OpenAIAsText", openai{}, `data: {"error":"busy"}` + "\n\n", "internal"},
		{"OpenAINamed", openai{}, "event: error\ndata: {\"message\":\"busy\"}\n\n", "internal"},
		{"OpenAIMixed", openai{}, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f"}},{"index":1,"id":"y","function":{"name":"g"}},{"index":0,"function":{"arguments":"{}"}}]}}]}` + "\n\n", "-"},
		{"DeepSeekFull", openai{}, `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"insufficient_system_resource"}]}` + "\n\ndata: [DONE]\n\n", "overloaded"},
		{"OpenAIEmpty", openai{}, "data: [DONE]\n\n", ""},
		{"Anthropic", anthropic{}, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n", "overloaded"},
		{"Responses", responses{}, `data: {"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"busy"}}}` + "\n\n", "rate_limit"},
		{"ResponsesFlat", responses{}, `data: {"type":"error","code":"server_error","message":"busy"}` + "\n\n", "internal"},
		{"Gemini", gemini{}, `data: {"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}` + "\n\n", "overloaded"},
		{"NotJSON", anthropic{}, "data: <html>\n\n", "-"},
		{"Nothing", gemini{}, "", ""},
	} {
		err := c.d.ReadStream(strings.NewReader(c.stream), func(Delta) error { return nil })
		var e *Error
		switch {
		case err == nil:
			t.Errorf("%s: no error", c.name)
		case c.code == "" && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("%s: %v, want a stream cut short", c.name, err)
		case c.code != "" && c.code != "-" && (!errors.As(err, &e) || e.Code != c.code || e.Message == ""):
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
	}
}

// translateBody translates a body of one dialect to another.
func translateBody(t *testing.T, from, to Dialect, base, body string) string {
	t.Helper()
	q, err := from.ReadRequest(nil, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	fitted, _ := FitToolNames(q)
	r, err := to.NewRequest(base, "k", fitted)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTranslationsOfRequests(t *testing.T) {
	claude := `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"be good","cache_control":{"type":"ephemeral"}}],"thinking":{"type":"adaptive"},"context_management":{},"messages":[
		{"role":"user","content":"hi"},{"role":"system","content":"reminder"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}},{"type":"tool_use","id":"toolu_2","name":"g","input":{"a":1}}]},
		{"role":"system","content":"between"},
		{"role":"user","content":[{"type":"text","text":"see"},{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":"no"},{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"ok"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}]}`
	const deepseek, openAI = "https://api.deepseek.com", "https://api.openai.com/v1"
	for _, c := range []struct {
		name     string
		from, to Dialect
		base     string
		body     string
		want     []string // in this order
		not      []string
	}{
		{
			"ClaudeToDeepSeek",
			anthropic{},
			openai{},
			deepseek, claude,
			[]string{
				`"max_tokens":5`, `"content":"be good","role":"system"`, `"content":"hi"`, `"content":"reminder","role":"system"`, `"reasoning_content":"hm"`, `"id":"toolu_1"`, `"id":"toolu_2"`,
				`"content":"Error: no","role":"tool","tool_call_id":"toolu_2"`, `"content":"ok","role":"tool","tool_call_id":"toolu_1"`, `"content":"between","role":"system"`, `"see"`, `"image_url":{"url":"data:image/png;base64,AAAA"}`,
			},
			[]string{"cache_control", "context_management", "signature"},
		},
		{"ClaudeToOpenAI", anthropic{}, openai{}, openAI, claude, []string{`"max_completion_tokens":5`}, []string{"reasoning_content", `"max_tokens"`}},
		{
			"CallsWithoutResultsAreAnswered",
			anthropic{},
			openai{},
			deepseek,
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":"never mind"}]}`,
			[]string{`"tool_calls"`, `"content":"(no result)","role":"tool","tool_call_id":"x"`, `"never mind"`},
			nil,
		},
		{
			"ResultsWithoutCallsAreTold",
			anthropic{},
			openai{},
			deepseek, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"late"}]}]}`,
			[]string{`"content":"Result of a tool: late","role":"user"`},
			[]string{`"role":"tool"`},
		},
		{
			"SystemAnywhereToAnthropic",
			openai{},
			anthropic{},
			"https://x", `{"messages":[{"role":"developer","content":"first"},{"role":"user","content":"a"},{"role":"system","content":"later"},{"role":"user","content":"b"}]}`,
			[]string{`"text":"a"`, `later`, `"text":"b"`, `"system":[{"text":"first"`},
			nil,
		},
		{
			"ToolMessagesAreOne",
			openai{},
			anthropic{},
			"https://x",
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"functions.f:0","function":{"name":"f","arguments":""}},{"id":"c2","function":{"name":"g","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"functions.f:0","content":"1"},{"role":"tool","tool_call_id":"c2","content":"2"}]}`,
			[]string{`"id":"toolu_as_`, `"input":{}`, `"id":"c2"`, `"type":"tool_result"`, `"type":"tool_result"`, `"role":"user"}]`},
			[]string{"functions.f"},
		},
		{
			"LongNames",
			anthropic{},
			openai{},
			deepseek, `{"messages":[],"tool_choice":{"type":"tool","name":"mcp__a.b__` + strings.Repeat("x", 90) + `"},"tools":[{"name":"mcp__a.b__` + strings.Repeat("x", 90) + `","input_schema":{}}]}`,
			[]string{`"mcp__a_b__xxx`},
			[]string{"a.b", strings.Repeat("x", 60)},
		},
		{
			"ThinkingNeedsWhatWasThought",
			openai{},
			anthropic{},
			"https://x",
			`{"reasoning_effort":"high","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"}]}`,
			[]string{`"tool_result"`},
			[]string{"budget_tokens"},
		},
		{"ThinkingFitsIntoTheTokens", openai{}, anthropic{}, "https://x", `{"reasoning_effort":"low","max_tokens":100,"temperature":0.2,"messages":[{"role":"user","content":"a"}]}`, []string{`"max_tokens":3072`, `"budget_tokens":2048`}, []string{"temperature"}},
		{"Documents", anthropic{}, openai{}, deepseek, `{"messages":[{"role":"user","content":[{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain"}}]}]}`, []string{`"file_data":"data:application/pdf;base64,AAAA"`, "plain"}, nil},
		{"Schema", openai{}, anthropic{}, "https://x", `{"messages":[],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"  }}}}`, []string{`"output_config":{"format":{"schema":`}, nil},
		{"JSONObject", openai{}, anthropic{}, "https://x", `{"messages":[],"response_format":{"type":"json_object"}}`, []string{"Answer with one JSON object"}, []string{"output_config"}},
		{"Namespaces", responses{}, openai{}, deepseek, `{"input":[{"type":"function_call","call_id":"c","namespace":"mcp__s","name":"t","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}],"tools":[{"type":"namespace","name":"mcp__s","tools":[{"type":"function","name":"t","parameters":{}}]},{"type":"web_search"}]}`, []string{`"name":"mcp__s__t"`, `"name":"mcp__s__t"`}, []string{"web_search"}},
		{"CallsOfGemini", openai{}, gemini{}, "https://x", `{"model":"gemini-3","messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"}]}`, []string{"functionCall", noSignature, `"functionResponse":{"name":"f","response":{"output":"1"}}`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			rest := translateBody(t, c.from, c.to, c.base, c.body)
			if !json.Valid([]byte(rest)) {
				t.Fatal(rest)
			}
			for _, w := range c.not {
				if strings.Contains(rest, w) {
					t.Errorf("%s is in %s", w, rest)
				}
			}
			all := rest
			for _, w := range c.want {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Errorf("no %s (in its place) in %s", w, all)
				}
				rest = after
			}
		})
	}
}

func TestMistakesOfClientsNameTheField(t *testing.T) {
	for _, c := range []struct {
		d          Dialect
		body, want string
	}{
		{anthropic{}, `{"max_tokens":"5"}`, "max_tokens"},
		{anthropic{}, `{"messages":[{"role":"tool","content":"x"}]}`, "messages[0].role"},
		{anthropic{}, `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"%"}}]}]}`, "messages[0].content[0]: invalid: source.data"},
		{anthropic{}, `nope`, "body"},
		{openai{}, `{"n":2}`, "n: 2"},
		{openai{}, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}`, "messages[0]: image_url"},
		{openai{}, `{"tool_choice":7}`, "tool_choice"},
		{responses{}, `{"previous_response_id":"r"}`, "previous_response_id"},
		{responses{}, `{"input":[{"role":"x"}]}`, "input[0]: invalid: role"},
		{gemini{}, `{"generationConfig":{"candidateCount":3}}`, "candidateCount"},
	} {
		_, err := c.d.ReadRequest(&http.Request{}, []byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.body, err, c.want)
		}
	}
}

func TestNamesComeBack(t *testing.T) {
	for _, name := range []string{"plain", "mcp__a__b", "a.b", "a b", "世界", "1st", "-x", strings.Repeat("y", 200), ""} {
		q, back := FitToolNames(&Request{Tools: []Tool{{Name: name}}})
		short := q.Tools[0].Name
		if len(short) > maxName || !isPlain(short) || back(short) != name {
			t.Errorf("%q: %q: %q", name, short, back(short))
		}
	}
	for _, id := range []string{"plain", "functions.f:0", "a b", "世界", "toolu_as_x", strings.Repeat("z", 80), "toolu_as_"} {
		if m := toolID(id); !isPlain(m) || originalID(m) != id {
			t.Errorf("%q: %q: %q", id, m, originalID(m))
		}
	}
	if m := toolID(strings.Repeat("z", 500)); len(m) > 2*maxID || !isPlain(m) {
		t.Errorf("%q", m)
	}
}
