// Package agenttest helps to test agents without their programs: it replays transcripts of
// real runs, and has a fake sandbox whose programs are Go functions.
package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
)

// Site returns the site of replayed turns.
func Site(a agent.Agent) agent.Environment {
	return agent.Environment{
		Dir:   "/workspace",
		State: "/var/lib/agents/" + a.Name(),
		Model: "http://127.0.0.1:41234",
		Tools: []string{"/var/lib/agents/bin/atoll-tool", "mcp", "127.0.0.1:41235"},
	}
}

// Transcript is the recording of a process: a directory with stdout.jsonl and, if they are
// needed, stderr, rc and turn.json with the Turn. Lines of stdout.jsonl that are objects
// with "_sent" are input that the process was sent at that point; those with "_rc" are
// ignored.
type Transcript struct {
	Turn   agent.Turn
	Lines  []Line
	Stderr []byte
	Code   int
}

// Line is a line of a transcript.
type Line struct {
	Sent bool // by the host
	Data []byte
}

// Load reads a transcript.
func Load(t testing.TB, dir string) Transcript {
	t.Helper()
	out, err := os.ReadFile(filepath.Join(dir, "stdout.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	tr := Transcript{Turn: agent.Turn{Prompt: agent.Text("do the task")}, Lines: Split(out)}
	tr.Stderr = readOptional(t, dir, "stderr")
	if rc := bytes.TrimSpace(readOptional(t, dir, "rc")); len(rc) > 0 {
		// rc has only the status.
		if tr.Code, err = strconv.Atoi(string(rc)); err != nil {
			t.Fatalf("%s/rc: %v", dir, err)
		}
	}
	if b := readOptional(t, dir, "turn.json"); b != nil {
		if err := json.Unmarshal(b, &tr.Turn); err != nil {
			t.Fatalf("%s/turn.json: %v", dir, err)
		}
	}
	return tr
}

func readOptional(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

// Split returns the lines of a transcript.
func Split(text []byte) []Line {
	var lines []Line
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		var note struct {
			Sent json.RawMessage `json:"_sent"`
			RC   *int            `json:"_rc"`
		}
		if !bytes.Contains(line, []byte(`"_`)) || json.Unmarshal(line, &note) != nil {
			note.Sent, note.RC = nil, nil
		}
		switch {
		case note.RC != nil:
		case note.Sent != nil:
			lines = append(lines, Line{Sent: true, Data: note.Sent})
		default:
			lines = append(lines, Line{Data: line})
		}
	}
	return lines
}

// Played is the result of a replay.
type Played struct {
	Events  []agent.Event
	Results []agent.Result // of each prompt
	Sent    [][]byte       // input that the Conversation sent
	Closed  bool           // the Conversation closed the process's input

	golden bytes.Buffer
}

// Replay plays a transcript to an agent's Conversation, compares its events and input with
// the golden file events.jsonl in the same directory (rewritten with -update), and checks
// the laws.
func Replay(t *testing.T, a agent.Agent, dir string) *Played {
	t.Helper()
	tr := Load(t, dir)
	p := Play(a, tr)
	compareGolden(t, filepath.Join(dir, "events.jsonl"), p.golden.Bytes())
	Laws(t, p.Events, len(p.Results))
	return p
}

// ReplayAll replays every transcript in the directories of root, and also runs agent.Run
// with a process that prints it.
func ReplayAll(t *testing.T, a agent.Agent, root string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*", "stdout.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no transcripts in %s", root)
	}
	for _, f := range files {
		dir := filepath.Dir(f)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			Replay(t, a, dir)
			runTranscript(t, a, Load(t, dir))
		})
	}
}

// runTranscript runs a turn with a process that prints a transcript.
func runTranscript(t *testing.T, a agent.Agent, tr Transcript) {
	t.Helper()
	sb := NewSandbox(t)
	sb.Programs["sh"] = func(_ context.Context, p *Process) int {
		_, _ = io.WriteString(p.Stdout, "1000\n"+sb.Dir()+"\n/usr/bin:/bin\n") // what Run looks for
		return 0
	}
	sb.Programs["*"] = playTranscript(tr)
	if tr.Turn.Command == nil {
		tr.Turn.Command = []string{"recital"} // some agents have no program of their own
	}
	var events []agent.Event
	r, err := agent.Run(t.Context(), agent.Job{
		Sandbox: sb, Agent: a, Turn: tr.Turn, Dir: sb.Dir(), State: sb.State(),
		Decide: func(context.Context, agent.Permission) (agent.Decision, error) {
			return agent.Decision{Allow: true}, nil
		},
		Emit: func(e agent.Event) { events = append(events, e) },
	})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if r.Exit == nil || *r.Exit != tr.Code {
		t.Errorf("Run saw the exit status %v, want %d", r.Exit, tr.Code)
	}
	Laws(t, events, 1)
}

// Play plays a transcript to an agent's Conversation. Sent input in it is only a cue for the
// host: it decides a pending permission, and denies it if the input contains a word for
// that; or it interrupts; or, when the Conversation has settled, it sends the next prompt.
func Play(a agent.Agent, tr Transcript) *Played {
	p := &player{conversation: a.NewConversation(&tr.Turn, Site(a))}
	p.conversation.Begin(p)
	begun := false
	for _, l := range tr.Lines {
		switch {
		case !l.Sent:
			begun = true
			p.conversation.HandleLine(p, bytes.Clone(l.Data))
		case begun:
			p.reactTo(string(l.Data))
		}
	}
	p.finishPrompt(&agent.Exit{Code: tr.Code, Stderr: tr.Stderr})
	return &p.Played
}

// player is the host's side of a replay.
type player struct {
	Played

	conversation agent.Conversation
	pending      []string // ids of permissions
}

// Emit stores an event.
func (p *player) Emit(e agent.Event) {
	switch e.Type {
	case agent.PermissionRequested:
		p.pending = append(p.pending, e.Permission.ID)
	case agent.PermissionResolved: // withdrawn by the agent
		for i, id := range p.pending {
			if id == e.Permission.ID {
				p.pending = append(p.pending[:i], p.pending[i+1:]...)
				break
			}
		}
	}
	e.Seq, e.Time, e.Turn = 0, time.Time{}, ""
	b, err := json.Marshal(e)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"unmarshalable": err.Error()})
	}
	b = append([]byte("{"), bytes.TrimPrefix(b, []byte(`{"seq":0,"time":"0001-01-01T00:00:00Z","turn":"",`))...)
	p.golden.Write(append(b, '\n'))
	e.Seq = int64(len(p.Events) + 1)
	p.Events = append(p.Events, e)
}

// Send stores sent input.
func (p *player) Send(b []byte) {
	p.Sent = append(p.Sent, bytes.Clone(b))
	for line := range bytes.Lines(b) {
		p.writeNote("_sent", bytes.TrimSuffix(line, []byte("\n")))
	}
}

// Close records that the input was closed.
func (p *player) Close() {
	p.Closed = true
	p.writeNote("_closed", []byte("true"))
}

// writeNote writes a line that is not an event into the golden file.
func (p *player) writeNote(key string, value []byte) {
	if !json.Valid(value) {
		value, _ = json.Marshal(string(value))
	}
	p.golden.WriteString(`{"` + key + `":`)
	p.golden.Write(value)
	p.golden.WriteString("}\n")
}

// reactTo repeats the host's action when the recorded process was sent input.
func (p *player) reactTo(sent string) {
	said := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(sent, w) {
				return true
			}
		}
		return false
	}
	switch {
	case len(p.pending) > 0:
		id := p.pending[0]
		p.pending = p.pending[1:]
		d := agent.Decision{Allow: !said("deny", "denied", "decline", "reject", "cancelled"), Message: "policy says no"}
		if d.Allow {
			d.Message = ""
		}
		if err := p.conversation.Decide(p, id, d); err != nil {
			p.writeNote("_error", []byte(err.Error()))
		}
		p.Emit(agent.Event{Type: agent.PermissionResolved, Permission: &agent.Permission{ID: id, Decision: &d, By: "policy"}})
	case said("interrupt", "cancel", "abort"):
		if !p.conversation.Interrupt(p) {
			p.writeNote("_error", []byte("it can't be interrupted"))
		}
	case p.conversation.IsFinished():
		p.finishPrompt(nil)
		if err := p.conversation.Prompt(p, agent.Text("the next task")); err != nil {
			p.writeNote("_error", []byte(err.Error()))
		}
	}
}

// finishPrompt emits the result, as Run does.
func (p *player) finishPrompt(exit *agent.Exit) {
	for _, id := range p.pending {
		p.Emit(agent.Event{Type: agent.PermissionResolved, Permission: &agent.Permission{ID: id, Decision: &agent.Decision{}, By: "end"}})
	}
	p.pending = nil
	r := p.conversation.Result(exit)
	if r.Outcome == "" {
		r.Outcome = agent.Crashed
	}
	if exit != nil {
		r.Exit = &exit.Code
	}
	p.Results = append(p.Results, r)
	p.Emit(agent.Event{Type: agent.Finished, Session: r.Session, Result: &r})
}

var _ agent.Exchange = (*player)(nil)
