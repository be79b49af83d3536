package claude_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

// playLines plays lines to a Conversation.
func playLines(turn agent.Turn, lines ...string) *agenttest.Played {
	turn.Prompt = agent.Text("go")
	return agenttest.Play(claude.Agent{}, agenttest.Transcript{Turn: turn, Lines: agenttest.Split([]byte(strings.Join(lines, "\n")))})
}

const (
	initMessage = `{"type":"system","subtype":"init","session_id":"s","claude_code_version":"2","model":"m","tools":["Bash"]}`
	good        = `{"type":"result","subtype":"success","is_error":false,"result":"fine","session_id":"s","usage":{"input_tokens":3,"output_tokens":4}}`
)

// Whatever lines come before, the result counts.
func TestStrangeLines(t *testing.T) {
	for name, line := range map[string]string{
		"NotJSON":                     `Segmentation fault`,
		"NotUTF8":                     "\xff\xfe{",
		"NotAnObject":                 `[1,2]`,
		"Null":                        `null`,
		"NoType":                      `{"subtype":"init"}`,
		"TypeOfAnotherType":           `{"type":7}`,
		"UnknownType":                 `{"type":"rate_limit_event","rate_limit_info":{"status":"allowed"}}`,
		"UnknownSubtype":              `{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto"}}`,
		"MessageIsAString":            `{"type":"assistant","message":"hello"}`,
		"MessageIsNull":               `{"type":"assistant","message":null}`,
		"ContentIsNull":               `{"type":"assistant","message":{"content":null}}`,
		"ContentOfNumbers":            `{"type":"assistant","message":{"content":[1,null,"x",{}]}}`,
		"UnknownBlock":                `{"type":"assistant","message":{"content":[{"type":"hologram"}]}}`,
		"ToolWithoutID":               `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{}}]}}`,
		"ToolWhoseIDIsANumber":        `{"type":"assistant","message":{"content":[{"type":"tool_use","id":7,"name":"Bash","input":{}}]}}`,
		"ToolWhoseInputIsAString":     `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Bash","input":"ls"}]}}`,
		"ToolWithoutInput":            `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":null}]}}`,
		"ResultOfNoTool":              `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"nobody","content":[{"type":"image"}]}]}}`,
		"UserContentIsText":           `{"type":"user","message":{"content":"hello"}}`,
		"MetaOfAnotherType":           `{"type":"user","message":{"content":[]},"tool_result_meta":{"id":1},"tool_use_result":7}`,
		"DeltaOfAnotherType":          `{"type":"stream_event","event":{"type":"content_block_delta","delta":"x"}}`,
		"EventIsNull":                 `{"type":"stream_event","event":null}`,
		"RetryWithHugeNumbers":        `{"type":"system","subtype":"api_retry","attempt":1e300,"error_status":"429","retry_delay_ms":1e300,"error":null}`,
		"RetryWithNumbersPastAll":     `{"type":"system","subtype":"api_retry","attempt":1e999,"retry_delay_ms":-1e999}`,
		"TasksAreNotAList":            `{"type":"system","subtype":"background_tasks_changed","tasks":"none"}`,
		"TasksAreNull":                `{"type":"system","subtype":"background_tasks_changed","tasks":null}`,
		"StatusIsNull":                `{"type":"system","subtype":"status","status":null}`,
		"RequestWithoutID":            `{"type":"control_request","request":{"subtype":"can_use_tool","tool_name":"Bash"}}`,
		"RequestIsNull":               `{"type":"control_request","request_id":"r","request":null}`,
		"CancelOfNothing":             `{"type":"control_cancel_request","request_id":"r"}`,
		"InitOfOtherTypes":            `{"type":"system","subtype":"init","tools":{"Bash":1},"mcp_servers":["x"],"model":5,"session_id":9}`,
		"ResultOfOtherTypes":          `{"type":"result","subtype":5,"is_error":"no","result":{"text":1},"usage":[1],"permission_denials":{"a":1},"errors":"x","total_cost_usd":"free"}`,
		"ResultWithHugeNumbers":       `{"type":"result","subtype":"success","usage":{"input_tokens":1e40},"total_cost_usd":1e300,"model_usage_since_last_result":{"m":{"inputTokens":-5,"costUSD":-1}}}`,
		"KeysInAnotherOrder":          `{"message":{"content":[{"text":"hi","type":"text"}]},"session_id":"s","type":"assistant"}`,
		"DenialWithoutID":             `{"type":"system","subtype":"permission_denied","message":"no"}`,
		"ToolThatIsStartedTwice":      `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Bash"},{"type":"tool_use","id":"a","name":"Bash"}]}}`,
		"ToolThatEndsTwice":           `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}]}}`,
		"TheSameRequestTwice":         `{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool"}}` + "\n" + `{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool"}}`,
		"ADeepDocument":               strings.Repeat(`{"type":`, 5000) + `1` + strings.Repeat(`}`, 5000),
		"AnEmptyObject":               `{}`,
		"PiecesThatTheWholeContradic": `{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"abc"}}}` + "\n" + `{"type":"assistant","message":{"content":[{"type":"text","text":"xyz"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := playLines(agent.Turn{}, initMessage, line, good)
			agenttest.Laws(t, p.Events, 1)
			r := p.Results[0]
			if r.Outcome != agent.OK || r.Text != "fine" || r.Usage.Cost < 0 {
				t.Errorf("the result: %+v", r)
			}
			for _, e := range p.Events {
				if e.Retry != nil && (e.Retry.Delay < 0 || e.Retry.Delay > 24*time.Hour) {
					t.Errorf("a delay of %v", e.Retry.Delay)
				}
			}
		})
	}
}

// Unknown lines become Raw events.
func TestUnknownIsPassedOn(t *testing.T) {
	for _, line := range []string{`{"type":"prompt_suggestion","suggestion":"x"}`, `{"type":"system","subtype":"compact_boundary"}`, `[1]`} {
		p := playLines(agent.Turn{}, initMessage, line, good)
		if e := p.Events[1]; e.Type != agent.Raw || string(e.Raw) != line {
			t.Errorf("%s: %+v", line, e)
		}
	}
	if e := playLines(agent.Turn{}, "panic: \xff").Events[0]; e.Type != agent.Raw || string(e.Raw) != `"panic: `+"\uFFFD"+`"` {
		t.Errorf("what is no JSON: %s", e.Raw)
	}
}

// A result may be told in several places that disagree.
func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		line    string
		outcome agent.Outcome
		code    string
	}{
		"Success":              {`"subtype":"success","terminal_reason":"completed"`, agent.OK, ""},
		"OfAnOldVersion":       {`"subtype":"success"`, agent.OK, ""},
		"NothingIsSaid":        {`"x":1`, agent.OK, ""},
		"AnUnknownReason":      {`"subtype":"success","terminal_reason":"tuesday"`, agent.OK, ""},
		"SuccessWithAnError":   {`"subtype":"success","is_error":true`, agent.Failed, ""},
		"MaxTurns":             {`"subtype":"error_max_turns","is_error":true`, agent.MaxTurns, ""},
		"MaxTurnsByReason":     {`"subtype":"success","is_error":true,"terminal_reason":"max_turns"`, agent.MaxTurns, ""},
		"Budget":               {`"subtype":"error_max_budget_usd","is_error":true,"terminal_reason":"budget_exhausted"`, agent.BudgetExceeded, ""},
		"AbortedTools":         {`"subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools"`, agent.Aborted, ""},
		"AbortedStreaming":     {`"subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming"`, agent.Aborted, ""},
		"DuringExecution":      {`"subtype":"error_during_execution","is_error":true`, agent.Failed, ""},
		"PromptTooLong":        {`"subtype":"success","is_error":true,"terminal_reason":"prompt_too_long","api_error_status":400`, agent.Failed, "prompt_too_long"},
		"Refusal":              {`"subtype":"success","is_error":true,"stop_reason":"refusal"`, agent.Refused, ""},
		"Forbidden":            {`"subtype":"success","is_error":true,"api_error_status":403`, agent.Failed, "forbidden"},
		"Overloaded":           {`"subtype":"success","is_error":true,"api_error_status":529`, agent.Failed, "overloaded"},
		"MaxOutput":            {`"subtype":"success","is_error":true,"api_error":"max_output_tokens"`, agent.Failed, "max_output"},
		"StructuredOutput":     {`"subtype":"error_max_structured_output_retries","is_error":true`, agent.Failed, "structured_output"},
		"AnUnknownSubtype":     {`"subtype":"error_tuesday"`, agent.Failed, ""},
		"AStatusThatIsNoError": {`"subtype":"success","is_error":true,"api_error_status":7`, agent.Failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := playLines(agent.Turn{}, initMessage, `{"type":"result",`+c.line+`,"result":"words"}`)
			if r := p.Results[0]; r.Outcome != c.outcome || r.Code != c.code || (r.Outcome == agent.OK) != (r.Text == "words") {
				t.Errorf("%+v; want %s %s", r, c.outcome, c.code)
			}
		})
	}
}

// A background task keeps a turn open until its end is reported.
func TestSettled(t *testing.T) {
	const (
		task  = `{"type":"system","subtype":"task_started","task_id":"b","is_backgrounded":true}`
		ended = `{"type":"system","subtype":"task_notification","task_id":"b","status":"completed"}`
		none  = `{"type":"system","subtype":"background_tasks_changed","tasks":[]}`
		asks  = `{"type":"system","subtype":"status","status":"requesting"}`
	)
	for name, c := range map[string]struct {
		lines   []string
		settled bool
		leaves  bool // an interrupt ends it at once
	}{
		"NothingYet":           {[]string{initMessage}, false, false},
		"Result":               {[]string{initMessage, good}, true, false},
		"TaskUnderWay":         {[]string{initMessage, task, good}, false, true},
		"TaskHasEnded":         {[]string{initMessage, task, good, ended, none}, false, true},
		"AgentWoke":            {[]string{initMessage, task, good, ended, none, initMessage}, false, false},
		"AgentSaidSomething":   {[]string{initMessage, task, good, ended, none, initMessage, good}, true, false},
		"TaskEndedBefore":      {[]string{initMessage, task, ended, none, good}, false, true},
		"AndWasTold":           {[]string{initMessage, task, ended, none, asks, good}, true, false},
		"TaskThatWasWaitedFor": {[]string{initMessage, strings.Replace(task, "true", "false", 1), ended, good}, true, false},
		"MoreIsQueued":         {[]string{initMessage, strings.Replace(good, `"result":`, `"queued_turn_count":1,"result":`, 1)}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := &recordingExchange{}
			talk := claude.Agent{}.NewConversation(&agent.Turn{Prompt: agent.Text("go")}, agent.Environment{})
			talk.Begin(x)
			for _, l := range c.lines {
				talk.HandleLine(x, []byte(l))
			}
			if got := talk.IsFinished(); got != c.settled {
				t.Errorf("settled: %v", got)
			}
			if c.leaves && (!talk.Interrupt(x) || !talk.IsFinished()) {
				t.Error("an interrupt does not end what runs behind its back")
			}
		})
	}
}

// recordingExchange records the output of a Conversation.
type recordingExchange struct {
	events []agent.Event
	sent   []string
}

func (e *recordingExchange) Emit(v agent.Event) { e.events = append(e.events, v) }
func (e *recordingExchange) Send(b []byte)      { e.sent = append(e.sent, string(b)) }
func (e *recordingExchange) Close()             {}

func TestDecide(t *testing.T) {
	const ask = `{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t","input":{"command":"ls  -l","n":12345678901234567890},"permission_suggestions":[{"type":"setMode","mode":"acceptEdits"},{"type":"addRules","behavior":"allow","rules":[{"toolName":"Bash","ruleContent":"ls:*"}],"destination":"localSettings"}]}}`
	for name, c := range map[string]struct {
		ask      string
		decision agent.Decision
		answer   string
	}{
		"Allow":             {ask, agent.Decision{Allow: true}, `{"behavior":"allow","updatedInput":{"command":"ls  -l","n":12345678901234567890}}`},
		"Rewrite":           {ask, agent.Decision{Allow: true, Input: map[string]any{"command": "id"}}, `{"behavior":"allow","updatedInput":{"command":"id"}}`},
		"Deny":              {ask, agent.Decision{Message: "why not"}, `{"behavior":"deny","message":"why not"}`},
		"DenyWithoutReason": {ask, agent.Decision{}, `{"behavior":"deny","message":"This was not permitted."}`},
		"Always":            {ask, agent.Decision{Allow: true, Always: true, Input: map[string]any{}}, `{"behavior":"allow","updatedInput":{},"updatedPermissions":[{"behavior":"allow","destination":"session","rules":[{"ruleContent":"ls:*","toolName":"Bash"}],"type":"addRules"}]}`},
		"AlwaysWithout": {
			strings.Replace(ask, "addRules", "other", 1),
			agent.Decision{Allow: true, Always: true, Input: map[string]any{}},
			`{"behavior":"allow","updatedInput":{},"updatedPermissions":[{"behavior":"allow","destination":"session","rules":[{"toolName":"Bash"}],"type":"addRules"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := &recordingExchange{}
			talk := claude.Agent{}.NewConversation(&agent.Turn{Prompt: agent.Text("go"), Ask: true}, agent.Environment{})
			talk.HandleLine(x, []byte(c.ask))
			if err := talk.Decide(x, "r", c.decision); err != nil {
				t.Fatal(err)
			}
			var sent struct {
				Response struct {
					ID       string          `json:"request_id"`
					Response json.RawMessage `json:"response"`
				} `json:"response"`
			}
			if err := json.Unmarshal([]byte(x.sent[0]), &sent); err != nil || sent.Response.ID != "r" || string(sent.Response.Response) != c.answer {
				t.Errorf("%v\n got %s\nwant %s", err, sent.Response.Response, c.answer)
			}
			if err := talk.Decide(x, "r", c.decision); !errors.Is(err, atoll.ErrNotFound) {
				t.Errorf("deciding twice: %v", err)
			}
		})
	}
}

// Requests that the host does not support are refused, so that nothing waits for them.
func TestUnknownRequests(t *testing.T) {
	x := &recordingExchange{}
	talk := claude.Agent{}.NewConversation(&agent.Turn{Prompt: agent.Text("go")}, agent.Environment{})
	talk.HandleLine(x, []byte(`{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback"}}`))
	if len(x.sent) != 1 || !strings.Contains(x.sent[0], `"subtype":"error"`) || !strings.Contains(x.sent[0], `"request_id":"h"`) {
		t.Errorf("the answer: %q", x.sent)
	}
}

// A prompt is text for the model, not a command of the program.
func TestPromptsAreText(t *testing.T) {
	for prompt, c := range map[string]struct {
		args map[string]any
		sent string
	}{
		"/clear":  {nil, `" /clear"`},
		"/review": {map[string]any{"commands": true}, `"/review"`},
		"a\n/b":   {nil, `"a\n/b"`},
	} {
		x := &recordingExchange{}
		claude.Agent{}.NewConversation(&agent.Turn{Prompt: agent.Text(prompt), Arguments: c.args}, agent.Environment{}).Begin(x)
		if !strings.Contains(x.sent[0], `"text":`+c.sent) {
			t.Errorf("%q: %s", prompt, x.sent[0])
		}
	}
}
