package turns

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

// newDirectServer returns a server with an assistant without a sandbox.
func newDirectServer(t *testing.T, script modeltest.Script) *testServer {
	t.Helper()
	s := newTestServer(t, serverOptions{script: script})
	s.app.Assistants["qa"] = &assistant.Assistant{ID: "qa", Connector: "test"}
	return s
}

// TestUnknownToolIsRefused checks that a model that calls a tool which was not offered gets an error that names the
// tools, and goes on; alone, and beside a call of a client's tool.
func TestUnknownToolIsRefused(t *testing.T) {
	weather := jsonObject{"type": "function", "function": jsonObject{"name": "weather", "parameters": jsonObject{"type": "object"}}}
	s := newDirectServer(t, modeltest.Script{Turns: []modeltest.Turn{
		{Tools: []modeltest.Use{newToolUse("launch", jsonObject{"at": "noon"})}},
		{Text: "There is no such tool."},
	}})
	body := jsonObject{"model": "qa", "tools": []jsonObject{weather}, "messages": []jsonObject{userMessage("launch it")}}
	c, resp := s.requestCompletion(body)
	if resp.StatusCode != 200 || c.Choices[0].Message.Content != "There is no such tool." || c.Choices[0].Finish != "stop" {
		t.Fatalf("%d %+v", resp.StatusCode, c)
	}
	asked := s.model.Requests()
	if last := string(asked[len(asked)-1].Body); len(asked) != 2 || !strings.Contains(last, `there is no tool \"launch\"; the tools are: weather`) {
		t.Errorf("after %d requests the model was told %s", len(asked), last)
	}
	s.model.Play(modeltest.Script{Turns: []modeltest.Turn{
		{Tools: []modeltest.Use{newToolUse("launch", jsonObject{}), newToolUse("weather", jsonObject{})}},
		{Text: "It is sunny."},
	}})
	body["messages"] = []jsonObject{userMessage("launch it in the sun")}
	c, resp = s.requestCompletion(body)
	if resp.StatusCode != 200 || c.Choices[0].Finish != "tool_calls" || len(c.Choices[0].Message.Calls) != 1 || c.Choices[0].Message.Calls[0].Function.Name != "weather" {
		t.Fatalf("%d %+v", resp.StatusCode, c)
	}
	call := c.Choices[0].Message.Calls[0].ID
	body["messages"] = []jsonObject{
		userMessage("launch it in the sun"),
		{"role": "assistant", "tool_calls": []jsonObject{{"id": call, "type": "function", "function": jsonObject{"name": "weather", "arguments": "{}"}}}},
		{"role": "tool", "tool_call_id": call, "content": "sunny"},
	}
	if c, resp = s.requestCompletion(body); resp.StatusCode != 200 || c.Choices[0].Message.Content != "It is sunny." {
		t.Errorf("%d %+v", resp.StatusCode, c)
	}
}

// TestParametersAreRefusedByName checks that what an assistant can't honour is an error that names it, and that values
// without a meaning are not.
func TestParametersAreRefusedByName(t *testing.T) {
	s := newDirectServer(t, modeltest.Script{Turns: []modeltest.Turn{{Text: "Yes."}}})
	for field, value := range map[string]any{
		"seed": 7, "logit_bias": jsonObject{"50256": -100}, "logprobs": true, "top_logprobs": 3, "frequency_penalty": 0.5, "presence_penalty": -1, "n": 2,
		"modalities": []string{"text", "audio"}, "prediction": jsonObject{"type": "content", "content": "x"},
	} {
		c, resp := s.requestCompletion(jsonObject{"model": "qa", "messages": []jsonObject{userMessage("hi")}, field: value})
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(c.Error.Message, field) {
			t.Errorf("%s: %d %+v", field, resp.StatusCode, c.Error)
		}
	}
	audio := jsonObject{"role": "user", "content": []jsonObject{{"type": "text", "text": "hear"}, {"type": "input_audio", "input_audio": jsonObject{"data": "AA==", "format": "wav"}}}}
	if c, resp := s.requestCompletion(jsonObject{"model": "qa", "messages": []jsonObject{audio}}); resp.StatusCode != http.StatusBadRequest || !strings.Contains(c.Error.Message, "messages[0].content[1].type") {
		t.Errorf("audio: %d %+v", resp.StatusCode, c.Error)
	}
	resp, text := s.postJSON("/v1/messages", jsonObject{"model": "qa", "max_tokens": 10, "messages": []jsonObject{userMessage("hi")}, "mcp_servers": []jsonObject{{"type": "url", "url": "https://example.com"}}})
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "mcp_servers") {
		t.Errorf("mcp_servers: %d %s", resp.StatusCode, text)
	}
	neutral := jsonObject{"model": "qa", "messages": []jsonObject{userMessage("hi")}, "seed": nil, "logit_bias": jsonObject{}, "logprobs": false, "frequency_penalty": 0, "n": 1, "modalities": []string{"text"}}
	if c, resp := s.requestCompletion(neutral); resp.StatusCode != http.StatusOK {
		t.Errorf("values without a meaning: %d %+v", resp.StatusCode, c.Error)
	}
	if n := len(s.model.Requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

// TestModelStatusReachesClient checks that a status of the model's API and its Retry-After reach the client, on each
// protocol, and the record of the turn.
func TestModelStatusReachesClient(t *testing.T) {
	s := newDirectServer(t, modeltest.Script{})
	for _, test := range []struct {
		upstream, retry, want int
		code                  string
	}{{429, 7, 429, "rate_limit"}, {529, 3, 529, "overloaded"}, {500, 0, 500, "server_error"}, {401, 0, 502, "authentication"}} {
		s.model.Play(modeltest.Script{Turns: []modeltest.Turn{{Status: test.upstream, Retry: test.retry}}})
		for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"} {
			body := jsonObject{"model": "qa", "max_tokens": 10, "messages": []jsonObject{userMessage("hi")}}
			if path == "/v1/responses" {
				body = jsonObject{"model": "qa", "input": "hi"}
			}
			resp, text := s.postJSON(path, body)
			want := ""
			if test.retry > 0 {
				want = fmt.Sprint(test.retry)
			}
			if resp.StatusCode != test.want || resp.Header.Get("Retry-After") != want {
				t.Errorf("%d on %s: %d, Retry-After %q: %s", test.upstream, path, resp.StatusCode, resp.Header.Get("Retry-After"), text)
			}
			rec, _ := s.waitForEnd(resp.Header.Get("X-Atoll-Turn"))
			if r := rec.Result; r.Outcome != agent.Failed || r.Code != test.code || r.Status != test.upstream || r.RetryAfter != test.retry {
				t.Errorf("%d on %s: %+v", test.upstream, path, r)
			}
		}
	}
}

// TestTurnQuotaIsTooManyRequests checks the answer to a turn over the limit of running turns, on each protocol.
func TestTurnQuotaIsTooManyRequests(t *testing.T) {
	s := newTestServer(t, serverOptions{registry: turn.Options{PerOwner: 1}})
	s.app.Assistants["qa"] = &assistant.Assistant{ID: "qa", Connector: "test"}
	rec, err := s.client.StartTurn(t.Context(), shellRequest("tail -f /dev/null"))
	s.must(err)
	for path, body := range map[string]jsonObject{
		"/v1/chat/completions": {"model": "qa", "messages": []jsonObject{userMessage("hi")}},
		"/v1/messages":         {"model": "qa", "max_tokens": 10, "messages": []jsonObject{userMessage("hi")}},
		"/v1/responses":        {"model": "qa", "input": "hi"},
	} {
		resp, text := s.postJSON(path, body)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(text, "rate_limit") {
			t.Errorf("%s: %d %v %s", path, resp.StatusCode, resp.Header, text)
		}
	}
	s.must(s.client.CancelTurn(t.Context(), rec.ID))
}

// TestResponses checks the API of responses: an answer, a stream, and a call of a client's tool with its result.
func TestResponses(t *testing.T) {
	s := newDirectServer(t, modeltest.Script{Turns: []modeltest.Turn{{Text: "Hello there."}}})
	var a struct {
		ID, Object, Status string
		Output             []struct {
			Type, Name, Arguments string
			CallID                string `json:"call_id"`
			Content               []struct{ Text string }
		}
		Usage struct {
			Input int `json:"input_tokens"`
		}
	}
	request := func(body jsonObject) {
		t.Helper()
		a.Output = nil
		resp, text := s.postJSON("/openai/v1/responses", body)
		if err := json.Unmarshal([]byte(text), &a); err != nil || resp.StatusCode != 200 || a.Object != "response" || a.Status != "completed" || len(a.Output) != 1 {
			t.Fatalf("%d %s %v", resp.StatusCode, text, err)
		}
	}
	request(jsonObject{"model": "qa", "input": "hi"})
	if a.Output[0].Content[0].Text != "Hello there." || !strings.HasPrefix(a.ID, "resp_") || a.Usage.Input != 100 {
		t.Errorf("%+v", a)
	}
	resp, text := s.postJSON("/v1/responses", jsonObject{"model": "qa", "stream": true, "input": "hi"})
	if resp.StatusCode != 200 || !strings.Contains(text, "event: response.output_text.delta") || !strings.Contains(text, "event: response.completed") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	s.model.Play(modeltest.Script{Turns: []modeltest.Turn{{Tools: []modeltest.Use{newToolUse("weather", jsonObject{"city": "Rome"})}}, {Text: "Sunny."}}})
	tools := []jsonObject{{"type": "function", "name": "weather", "parameters": jsonObject{"type": "object"}}}
	request(jsonObject{"model": "qa", "tools": tools, "input": "how is the weather?"})
	call := a.Output[0]
	if call.Type != "function_call" || call.Name != "weather" || !strings.Contains(call.Arguments, "Rome") {
		t.Fatalf("%+v", a)
	}
	request(jsonObject{"model": "qa", "tools": tools, "input": []jsonObject{
		{"role": "user", "content": "how is the weather?"},
		{"type": "function_call", "call_id": call.CallID, "name": "weather", "arguments": call.Arguments},
		{"type": "function_call_output", "call_id": call.CallID, "output": "sun"},
	}})
	if a.Output[0].Content[0].Text != "Sunny." {
		t.Errorf("%+v", a)
	}
}

// TestSchemaOfAgentIsRefused checks that a schema for the answer of an agent that has none is an error that names it.
func TestSchemaOfAgentIsRefused(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: map[string]agent.Agent{"plain": plainAgent{}}})
	s.app.Assistants["coder"] = &assistant.Assistant{ID: "coder", Sandbox: &assistant.Sandbox{Command: "plain"}}
	c, resp := s.requestCompletion(jsonObject{"model": "coder", "messages": []jsonObject{userMessage("hi")}, "response_format": jsonObject{
		"type": "json_schema", "json_schema": jsonObject{"name": "a", "schema": jsonObject{"type": "object"}},
	}})
	if resp.StatusCode/100 != 4 && resp.StatusCode != http.StatusNotImplemented || !strings.Contains(c.Error.Message, "schema") {
		t.Errorf("%d %+v", resp.StatusCode, c.Error)
	}
}

// plainAgent is a scriptedAgent that refuses schemas.
type plainAgent struct{ scriptedAgent }

func (plainAgent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	if t.Schema != nil {
		return nil, fmt.Errorf("agent plain: %w: a JSON schema for the answer", atoll.ErrUnsupported)
	}
	return scriptedAgent{}.Plan(t, at)
}
