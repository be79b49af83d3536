package command_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/command"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

// run runs shell text as an agent.
func run(t *testing.T, text string, arguments map[string]any) (agent.Result, []agent.Event) {
	t.Helper()
	sb := agenttest.NewSandbox(t)
	var events []agent.Event
	r, err := agent.Run(t.Context(), agent.Job{
		Sandbox: sb, Agent: command.Agent{}, Dir: sb.Dir(), State: sb.State(),
		Turn: agent.Turn{Prompt: agent.Text("sort this"), System: "Be brief.", Command: []string{"sh", "-c", text, "sh", "{prompt}"}, Arguments: arguments},
		Emit: func(e agent.Event) { events = append(events, e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	agenttest.Laws(t, events, 1)
	return r, events
}

func TestResults(t *testing.T) {
	for name, c := range map[string]struct {
		text      string
		arguments map[string]any
		outcome   agent.Outcome
		want      string // text
		message   string
	}{
		"OutputIsTheAnswer":     {"echo one; echo; echo two", nil, agent.OK, "one\n\ntwo", ""},
		"NoNewlineAtTheEnd":     {"printf one", nil, agent.OK, "one", ""},
		"NothingIsAnAnswer":     {"true", nil, agent.OK, "", ""},
		"PromptOnStdin":         {"cat", nil, agent.OK, "Be brief.\n\nsort this", ""},
		"PromptAsAFile":         {`cat "$1"; test "$1" = "$ATOLL_PROMPT"`, map[string]any{"prompt": "file"}, agent.OK, "Be brief.\n\nsort this", ""},
		"PromptNowhere":         {"cat", map[string]any{"prompt": "none"}, agent.OK, "", ""},
		"ExitStatusIsTheResult": {"echo half; echo oh no >&2; exit 7", nil, agent.Failed, "half", "exit status 7: oh no"},
		"NotFound":              {"exec /nonexistent", nil, agent.Failed, "", "exit status 127"},
		"PointerIntoOutput":     {`echo '{"a":[{"b/c":"found"}]}'`, map[string]any{"pointer": "/a/0/b~1c"}, agent.OK, "found", ""},
		"PointerToAnObject":     {`echo '{"a":{"b":1}}'`, map[string]any{"pointer": "/a"}, agent.OK, `{"b":1}`, ""},
		"PointerToAll":          {`echo '[1]'`, map[string]any{"pointer": ""}, agent.OK, `[1]`, ""},
		"PointerInTheLastLine":  {`echo working; echo '{"result":"one"}'; echo '{"result":"two"}'; echo bye; echo`, map[string]any{"pointer": "/result"}, agent.OK, "two", ""},
		"PointerToNothing":      {`echo '{}'`, map[string]any{"pointer": "/x"}, agent.Failed, "{}", "nothing at /x"},
		"PointerOutOfRange":     {`echo '[1]'`, map[string]any{"pointer": "/1"}, agent.Failed, "[1]", "nothing at /1"},
		"PointerWithoutJSON":    {`echo hi`, map[string]any{"pointer": "/x"}, agent.Failed, "hi", "not JSON"},
		"PatternsGroup":         {"echo answer: 1; echo answer: 42", map[string]any{"pattern": `answer: (\d+)`}, agent.OK, "42", ""},
		"PatternWithoutGroup":   {"echo x42y", map[string]any{"pattern": `\d+`}, agent.OK, "42", ""},
		"PatternThatIsNotThere": {"echo x", map[string]any{"pattern": `\d+`}, agent.Failed, "x", "nothing that matches"},
		"NotUTF8":               {`printf 'a\377b'`, nil, agent.OK, "a\uFFFDb", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, events := run(t, c.text, c.arguments)
			if r.Outcome != c.outcome || r.Text != c.want || !strings.Contains(r.Message, c.message) {
				t.Errorf("%+v, want %s %q %q", r, c.outcome, c.want, c.message)
			}
			var all strings.Builder
			for _, e := range events {
				if e.Type == agent.TextDelta {
					all.WriteString(e.Text)
				}
			}
			if c.arguments == nil && strings.TrimRight(all.String(), "\n") != r.Text {
				t.Errorf("told %q, the result is %q", all.String(), r.Text)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	at := agenttest.Site(command.Agent{})
	for name, turn := range map[string]agent.Turn{
		"stdin": {Prompt: agent.Text("hello"), Command: []string{"aider", "--yes"}, Model: "m"},
		"file":  {Prompt: agent.Text("-rf; $(x)"), Command: []string{"prog", "--in={prompt}"}, Arguments: map[string]any{"prompt": "file"}},
	} {
		p, err := command.Agent{}.Plan(&turn, at)
		if err != nil {
			t.Fatal(err)
		}
		agenttest.GoldenPlan(t, filepath.Join("testdata", name+".plan"), p)
	}
	for name, turn := range map[string]agent.Turn{
		"NoCommand":         {Prompt: agent.Text("x")},
		"NoPrompt":          {Command: []string{"x"}},
		"UnknownArgument":   {Prompt: agent.Text("x"), Command: []string{"x"}, Arguments: map[string]any{"promt": "file"}},
		"UnknownWay":        {Prompt: agent.Text("x"), Command: []string{"x"}, Arguments: map[string]any{"prompt": "argv"}},
		"NotAText":          {Prompt: agent.Text("x"), Command: []string{"x"}, Arguments: map[string]any{"pointer": 1}},
		"BadPattern":        {Prompt: agent.Text("x"), Command: []string{"x"}, Arguments: map[string]any{"pattern": "("}},
		"BadPointer":        {Prompt: agent.Text("x"), Command: []string{"x"}, Arguments: map[string]any{"pointer": "x"}},
		"PointerAndPattern": {Prompt: agent.Text("x"), Command: []string{"x"}, Arguments: map[string]any{"pointer": "/x", "pattern": "x"}},
	} {
		if _, err := (command.Agent{}).Plan(&turn, at); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	turn := agent.Turn{Prompt: agent.Text("x"), Command: []string{"x"}, Ask: true, Session: "s"}
	if _, err := (command.Agent{}).Plan(&turn, at); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("what it can't do: %v", err)
	}
}

// A prompt that looks like options or shell text is only a prompt.
func TestPromptsAreData(t *testing.T) {
	sb := agenttest.NewSandbox(t)
	for _, how := range []string{"stdin", "file"} {
		r, err := agent.Run(t.Context(), agent.Job{
			Sandbox: sb, Agent: command.Agent{}, Dir: sb.Dir(), State: sb.State(),
			Turn: agent.Turn{Prompt: agent.Text("--help; $(touch pwned) `touch pwned`\n'\""), Command: []string{"sh", "-c", `cat ${ATOLL_PROMPT:--}`}, Arguments: map[string]any{"prompt": how}},
		})
		if err != nil || r.Text != "--help; $(touch pwned) `touch pwned`\n'\"" {
			t.Errorf("%s: %+v %v", how, r, err)
		}
	}
	if _, err := os.Stat(filepath.Join(sb.Dir(), "pwned")); err == nil {
		t.Error("the prompt was run")
	}
}

// The virtual sandbox needs no programs: its own shell is an agent too.
func TestVirtualSandbox(t *testing.T) {
	sb, err := (&virtual.Driver{}).Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(t.Context())
	var events []agent.Event
	job := agent.Job{
		Sandbox: sb, Agent: command.Agent{}, Dir: "/work", State: "/agents", Emit: func(e agent.Event) { events = append(events, e) },
		Turn: agent.Turn{Prompt: append(agent.Text("b\na\n"), agent.Content{Name: "x.txt", Data: []byte("attached")}), Command: []string{"sh", "-c", "pwd; sort; cat .attachments/x.txt"}},
	}
	if err := atoll.Mkdir(t.Context(), sb, "/work", 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := agent.Run(t.Context(), job)
	if err != nil || r.Outcome != agent.OK || !strings.HasPrefix(r.Text, "/work\n") || !strings.HasSuffix(r.Text, "a\nb\nattached") {
		t.Errorf("%+v %v", r, err)
	}
	agenttest.Laws(t, events, 1)
	job.Model = http.NotFoundHandler()
	if _, err := agent.Run(t.Context(), job); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("a model where nothing can be reached: %v", err)
	}
	job.Model, job.Turn.Command, job.Timeout = nil, []string{"sh", "-c", "while :; do :; done"}, 300*time.Millisecond
	if r, err := agent.Run(t.Context(), job); err != nil || r.Outcome != agent.Timeout {
		t.Errorf("%+v %v", r, err)
	}
}
