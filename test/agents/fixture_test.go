//go:build linux

package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

// Paths in the sandbox.
const (
	workspace   = "/workspace"
	stateDir    = "/srv/agents"
	programsDir = "/opt/atoll/agents"
)

// modelKey is the key of the model's API, which must not get into sandboxes.
const modelKey = "sk-real-7f2c9e51d04b"

// fixture has an agent, a model, and directories that sandboxes share and that outlive them.
type fixture struct {
	testDriver

	agent agent.Agent
	model *modeltest.Server

	// access is how the agent reaches the model; a test may change it before a
	// turn.
	access *model.Access
	// tools are offered to the agent.
	tools []tool.Tool

	user   string            // user of the commands; empty: 1000
	dirs   map[string]string // paths in the sandbox and on the host
	mounts []atoll.Mount
	path   []string // directories in the sandbox with the agent's program
}

// newFixture returns a fixture for an agent whose program is in dir, a directory of the
// host; bin is the directory below it that is added to PATH.
func newFixture(t *testing.T, p testDriver, a agent.Agent, api dialect.Name, dir, bin string) *fixture {
	t.Helper()
	w := &fixture{testDriver: p, agent: a, model: modeltest.New(t, modeltest.Script{}), dirs: map[string]string{}}
	w.access = &model.Access{
		Connector: model.Connector{
			Name: "test", API: api, Base: w.model.URL, Key: modelKey, Model: "scripted-1", Models: []string{"*"},
			Prices: map[string]model.Price{"*": {Input: 1, Output: 2}},
		},
		Caller: model.Caller{Owner: atoll.Owner{App: "test", User: "ann"}, Turn: "turn"},
	}
	for _, inside := range []string{workspace, stateDir} {
		host := filepath.Join(makeTempDir(t), filepath.Base(inside))
		if err := os.Mkdir(host, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(host, 0o777); err != nil { // sandboxes run as other users
			t.Fatal(err)
		}
		w.dirs[inside] = host
	}
	inside := programsDir + "/" + a.Name()
	w.mounts = []atoll.Mount{{Source: dir, Target: inside, ReadOnly: true}}
	w.path = []string{filepath.Join(inside, bin)}
	return w
}

// createSandbox creates a sandbox with the fixture's directories and no network.
func (w *fixture) createSandbox(t *testing.T) atoll.Sandbox {
	t.Helper()
	spec := atoll.Spec{Image: w.image, User: cmp.Or(w.user, "1000"), Mounts: slices.Clone(w.mounts), Timeouts: atoll.Timeouts{Exec: -1}}
	for inside, host := range w.dirs {
		spec.Mounts = append(spec.Mounts, atoll.Mount{Source: host, Target: inside})
	}
	sb, err := w.driver.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return sb
}

// newJob returns the job of a turn in a sandbox, and the recorder of its events.
func (w *fixture) newJob(t *testing.T, sb atoll.Sandbox, turn agent.Turn) (agent.Job, *eventRecorder) {
	t.Helper()
	r := &eventRecorder{t: t, seen: make(chan struct{}, 1)}
	j := agent.Job{
		Sandbox: sb, Agent: w.agent, Turn: turn, Dir: workspace, State: stateDir, Path: w.path,
		Model: w.access.Endpoint(), Emit: r.addEvent, Log: &r.log, Timeout: 2 * time.Minute, Idle: time.Minute,
	}
	if w.tools != nil {
		file, err := helper.Finder{}.Find("atoll-tool")
		if err != nil {
			t.Fatal(err)
		}
		offer := &tool.Toolset{Caller: tool.Caller{Owner: w.access.Caller.Owner}, Tools: w.tools}
		j.ToolProgram = file
		j.Tools = func(c net.Conn) { _ = offer.Serve(context.WithoutCancel(t.Context()), c) } // a client may disconnect
	}
	return j, r
}

// runTurn runs a turn in a new sandbox. It fails the test if Run returns an error.
func (w *fixture) runTurn(t *testing.T, turn agent.Turn) (agent.Result, *eventRecorder) {
	t.Helper()
	j, r := w.newJob(t, w.createSandbox(t), turn)
	res, err := agent.Run(t.Context(), j)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	r.checkLaws()
	return res, r
}

// readFile returns a file of the sandboxes from its directory on the host.
func (w *fixture) readFile(t *testing.T, name string) string {
	t.Helper()
	for inside, host := range w.dirs {
		if rest, ok := strings.CutPrefix(name, inside+"/"); ok {
			b, err := os.ReadFile(filepath.Join(host, rest))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return string(b)
		}
	}
	t.Fatalf("%s is not in one of the directories that are shared with sandboxes", name)
	return ""
}

// listNames returns the names in a shared directory, without hidden
// ones.
func (w *fixture) listNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(w.dirs[dir])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// writeFile writes a file of the sandboxes to its directory on the host.
func (w *fixture) writeFile(t *testing.T, name, text string) {
	t.Helper()
	for inside, host := range w.dirs {
		if rest, ok := strings.CutPrefix(name, inside+"/"); ok {
			file := filepath.Join(host, rest)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s is not in one of the directories that are shared with sandboxes", name)
}

// checkNoKey checks that the key is neither in directories that outlive the sandbox nor
// in the events.
func (w *fixture) checkNoKey(t *testing.T, r *eventRecorder) {
	t.Helper()
	for inside, host := range w.dirs {
		err := filepath.WalkDir(host, func(name string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(name)
			if strings.Contains(string(b), modelKey) {
				t.Errorf("the key is in a file of %s: %s", inside, name)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(r.log.String(), modelKey) {
		t.Error("the key is in the events")
	}
}

// checkNoKeyInProcesses checks that the key is not in the arguments and environment of
// any process of this host, including those in sandboxes.
func checkNoKeyInProcesses(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), modelKey) { // other processes can't be read or have exited
				t.Errorf("the key is in %s", file)
			}
		}
	}
}

// checkNoKeyInSandbox checks that the key is not in files of a sandbox that programs
// can write.
func checkNoKeyInSandbox(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	half := len(modelKey) / 2
	search := fmt.Sprintf(`grep -rlsF "$(printf %%s%%s '%s' '%s')" /tmp /var/tmp /run /home /root /opt/atoll/run /srv %s`, modelKey[:half], modelKey[half:], workspace)
	if found := runLines(t, sb, search); len(found) != 0 {
		t.Errorf("the key is in %q", found)
	}
	if found := runLines(t, sb, strings.ReplaceAll(search, modelKey[:half], "Hello")+"; echo "+modelKey[:4]+" > /tmp/x; grep -rlsF "+modelKey[:4]+" /tmp"); len(found) == 0 {
		t.Error("the search finds nothing at all")
	}
}

// requestBodies returns the bodies of all requests to the model, and checks that they
// had the real key.
func (w *fixture) requestBodies(t *testing.T) []string {
	t.Helper()
	var bodies []string
	for _, q := range w.model.Requests() {
		if key := q.Header.Get("X-Api-Key") + q.Header.Get("Authorization") + q.Header.Get("X-Goog-Api-Key"); !strings.Contains(key, modelKey) {
			t.Errorf("%s was asked with the key %q", q.Path, key)
		}
		bodies = append(bodies, string(q.Body))
	}
	return bodies
}

// eventRecorder collects the events of a turn.
type eventRecorder struct {
	t    *testing.T
	log  syncBuffer
	seen chan struct{}

	mu     sync.Mutex
	events []agent.Event // guarded by mu
}

func (r *eventRecorder) addEvent(e agent.Event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	select {
	case r.seen <- struct{}{}:
	default:
	}
}

func (r *eventRecorder) allEvents() []agent.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// waitForEvent waits for an event for which is returns true.
func (r *eventRecorder) waitForEvent(is func(agent.Event) bool) agent.Event {
	r.t.Helper()
	late := time.After(time.Minute)
	for {
		if list := r.filterEvents(is); len(list) > 0 {
			return list[0]
		}
		select {
		case <-r.seen:
		case <-late:
			r.t.Fatalf("an event is missing; these were recorded:\n%s", r.formatEvents())
		}
	}
}

// filterEvents returns the events for which is returns true.
func (r *eventRecorder) filterEvents(is func(agent.Event) bool) []agent.Event {
	var list []agent.Event
	for _, e := range r.allEvents() {
		if is(e) {
			list = append(list, e)
		}
	}
	return list
}

// eventsOfType returns the events of a type.
func (r *eventRecorder) eventsOfType(typ agent.Type) []agent.Event {
	return r.filterEvents(func(e agent.Event) bool { return e.Type == typ })
}

// finishedCalls returns the finished calls of a tool.
func (r *eventRecorder) finishedCalls(name string) []agent.ToolCall {
	var calls []agent.ToolCall
	for _, e := range r.eventsOfType(agent.ToolFinished) {
		if e.Tool.Name == name {
			calls = append(calls, *e.Tool)
		}
	}
	return calls
}

// formatEvents returns all events as JSON lines.
func (r *eventRecorder) formatEvents() string {
	var b strings.Builder
	for _, e := range r.allEvents() {
		line, err := json.Marshal(e)
		if err != nil {
			r.t.Error(err)
		}
		fmt.Fprintf(&b, "%s\n", line[:min(len(line), 2000)])
	}
	return b.String()
}

// checkLaws checks what is true of every turn: event numbers without gaps, one result
// as the last event, and a log with the same events.
func (r *eventRecorder) checkLaws() {
	r.t.Helper()
	events := r.allEvents()
	for i, e := range events {
		if e.Seq != int64(i+1) {
			r.t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
	}
	if n := len(r.eventsOfType(agent.Finished)); n != 1 || events[len(events)-1].Type != agent.Finished {
		r.t.Errorf("%d results; the last event is %s", n, events[len(events)-1].Type)
	}
	if n := strings.Count(r.log.String(), "\n"); n != len(events) {
		r.t.Errorf("%d lines in the log of %d events", n, len(events))
	}
}

// syncBuffer is a buffer for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder // guarded by mu
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newScript returns a script of answers.
func newScript(turns ...modeltest.Turn) modeltest.Script { return modeltest.Script{Turns: turns} }

// answerWithTool returns an answer that calls a tool.
func answerWithTool(text, name string, input map[string]any) modeltest.Turn {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return modeltest.Turn{Text: text, Tools: []modeltest.Use{{Name: name, Input: b}}}
}

// answerWithText returns an answer that is text.
func answerWithText(text string) modeltest.Turn { return modeltest.Turn{Text: text} }

// checkOutcome checks the outcome and code of a result.
func checkOutcome(t *testing.T, r *eventRecorder, got agent.Result, o agent.Outcome, code string) {
	t.Helper()
	if got.Outcome != o || got.Code != code {
		t.Fatalf("the turn ended as %q (%s): %s\n%s\n%s", got.Outcome, got.Code, got.Message, got.Stderr, r.formatEvents())
	}
}

// runLines runs a command in a sandbox and returns the words of its output.
func runLines(t *testing.T, sb atoll.Sandbox, text string) []string {
	t.Helper()
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", text}})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Fields(string(exit.Stdout))
}
