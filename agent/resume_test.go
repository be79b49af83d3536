package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// keptProcess is a process that goes on when its host leaves it.
type keptProcess struct {
	mu      sync.Mutex
	changed sync.Cond
	output  []byte // guarded by mu, as all below
	input   []byte
	read    int // bytes of input that the program has read
	eof     bool
	exit    *int
}

// Write records output.
func (p *keptProcess) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output = append(p.output, b...)
	p.changed.Broadcast()
	return len(b), nil
}

// Read waits for input.
func (p *keptProcess) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.read == len(p.input) {
		if p.eof {
			return 0, io.EOF
		}
		p.changed.Wait()
	}
	n := copy(b, p.input[p.read:])
	p.read += n
	return n, nil
}

// serve connects the process to a host until it ends or the host leaves it.
func (p *keptProcess) serve(ctx context.Context, stdin io.Reader, stdout io.Writer, from int) (atoll.Exit, error) {
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := stdin.Read(b)
			p.mu.Lock()
			if ctx.Err() == nil {
				p.input = append(p.input, b[:n]...)
				p.eof = p.eof || err != nil
			}
			p.changed.Broadcast()
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})()
	for {
		p.mu.Lock()
		for ctx.Err() == nil && from == len(p.output) && p.exit == nil {
			p.changed.Wait()
		}
		part, exit := bytes.Clone(p.output[from:]), p.exit
		p.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return atoll.Exit{}, context.Cause(ctx)
		case len(part) > 0:
			_, _ = stdout.Write(part) // never fails
			from += len(part)
		case exit != nil:
			return atoll.Exit{Code: *exit}, nil
		}
	}
}

// resumableSandbox is a sandbox whose commands with an id go on when their host leaves them.
type resumableSandbox struct {
	*agenttest.Sandbox

	program func(p *keptProcess) int
	mu      sync.Mutex
	kept    map[string]*keptProcess // guarded by mu
}

func (s *resumableSandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if cmd.ID == "" {
		return s.Sandbox.Exec(ctx, cmd)
	}
	p := &keptProcess{}
	p.changed.L = &p.mu
	s.mu.Lock()
	s.kept[cmd.ID] = p
	s.mu.Unlock()
	go func() {
		code := s.program(p)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.exit = &code
		p.changed.Broadcast()
	}()
	return p.serve(ctx, cmd.Stdin, cmd.Stdout, 0)
}

func (s *resumableSandbox) ResumeExec(ctx context.Context, streams atoll.Cmd, from atoll.Resumption) (atoll.Exit, error) {
	s.mu.Lock()
	p := s.kept[streams.ID]
	s.mu.Unlock()
	if p == nil {
		return atoll.Exit{}, fmt.Errorf("%w: command %q", atoll.ErrNotFound, streams.ID)
	}
	p.mu.Lock()
	received := len(p.input)
	p.mu.Unlock()
	stdin, err := from.Stdin(int64(received))
	if err != nil {
		return atoll.Exit{}, err
	}
	return p.serve(ctx, stdin, streams.Stdout, int(from.Stdout))
}

// newResumable returns a job whose program asks for two permissions, and its sandbox.
func newResumable(t *testing.T) (*resumableSandbox, agent.Job) {
	t.Helper()
	s := &resumableSandbox{Sandbox: agenttest.NewSandbox(t), kept: make(map[string]*keptProcess)}
	s.Programs["sh"] = func(_ context.Context, p *agenttest.Process) int {
		fmt.Fprintf(p.Stdout, "1000\n%s\n/usr/bin:/bin\n", s.Dir())
		return 0
	}
	s.program = func(p *keptProcess) int {
		in := make([]byte, 0, 1000)
		answer := func() string { // a line of input
			for {
				if i := bytes.IndexByte(in, '\n'); i >= 0 {
					line := string(in[:i])
					in = in[i+1:]
					return line
				}
				b := make([]byte, 7)
				n, err := p.Read(b)
				if in = append(in, b[:n]...); err != nil {
					return "end of input"
				}
			}
		}
		fmt.Fprintf(p, "{\"text\":%q}\n{\"text\":\"in ", answer())
		fmt.Fprintf(p, "two parts\"}\n{\"ask\":\"first\"}\n")
		fmt.Fprintf(p, "{\"text\":%q}\n{\"ask\":\"second\"}\n", answer())
		fmt.Fprintf(p, "{\"text\":%q}\n{\"text\":\"x\"}\n{\"result\":\"done\"}\n", answer())
		answer() // the end
		return 0
	}
	return s, agent.Job{
		Sandbox: s, Agent: fakeAgent{features: agent.Features{Approvals: true, Interrupt: true}}, Once: true,
		Turn: agent.Turn{Prompt: agent.Text("hello"), Ask: true}, Dir: s.Dir(), State: s.State(), Journal: filepath.Join(t.TempDir(), "journal"),
	}
}

// formatEvent returns an event without what differs between two runs.
func formatEvent(e agent.Event) string {
	text := fmt.Sprintf("%d %s %q", e.Seq, e.Type, e.Text)
	if p := e.Permission; p != nil {
		text += " " + p.ID
		if p.Decision != nil {
			text += fmt.Sprintf(" %v by %s", p.Decision.Allow, p.By)
		}
	}
	if r := e.Result; r != nil {
		text += fmt.Sprintf(" %s %s %s", r.Outcome, r.Text, r.Message)
	}
	return text
}

// TestResumeSession leaves a session after each of its events, continues it, and expects the same events as without that,
// and each decision asked for until it was given.
func TestResumeSession(t *testing.T) {
	run := func(t *testing.T, leaveAfter int) (told, again []string, asked map[string]int) {
		t.Helper()
		_, job := newResumable(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		asked = make(map[string]int)
		started := make(chan *agent.Session, 1)
		var mu sync.Mutex
		job.Decide = func(_ context.Context, p agent.Permission) (agent.Decision, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[p.ID]++
			return agent.Decision{Allow: p.ID == "first"}, nil
		}
		job.Emit = func(e agent.Event) {
			if told = append(told, formatEvent(e)); len(told) == leaveAfter {
				cancel(atoll.ErrLeft)
				testenv.WaitFor(t, "the session is left", (<-started).WasLeft)
			}
		}
		s, err := agent.StartSession(ctx, job)
		if err != nil {
			t.Fatal(err)
		}
		started <- s
		_, err = s.Wait(context.WithoutCancel(ctx))
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		if leaveAfter == 0 {
			return told, nil, asked
		}
		job.Turn = agent.Turn{} // it is in the journal
		job.Emit = func(e agent.Event) { again = append(again, formatEvent(e)) }
		s, err = agent.ResumeSession(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		late, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err = s.Wait(late)
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		return told, again, asked
	}
	want, _, _ := run(t, 0)
	if len(want) < 9 {
		t.Fatalf("the session has too few events: %q", want)
	}
	for n := 1; n < len(want); n++ {
		told, again, asked := run(t, n)
		if !slices.Equal(again, want) {
			t.Fatalf("after %d events, continued:\n%q\nwant\n%q", n, again, want)
		}
		if len(told) >= len(want) || !slices.Equal(told, want[:len(told)]) {
			t.Errorf("after %d events, the first session told %q", n, told)
		}
		for id, times := range asked {
			if times > 2 {
				t.Errorf("after %d events, %q was asked for %d times", n, id, times)
			}
		}
	}
}

// TestResumeInterrupted continues a session that was interrupted before: the agent is not interrupted twice, and the result
// says why it stopped.
func TestResumeInterrupted(t *testing.T) {
	s, job := newResumable(t)
	interrupted := make(chan struct{}, 1)
	var inputs bytes.Buffer
	s.program = func(p *keptProcess) int {
		_, _ = p.Write([]byte("{\"text\":\"working\"}\n")) // never fails
		b := make([]byte, 1)
		for lines := 0; lines < 2; { // the prompt and the interrupt
			n, err := p.Read(b)
			if err != nil {
				return 1
			}
			inputs.Write(b[:n])
			lines += bytes.Count(b[:n], []byte("\n"))
		}
		interrupted <- struct{}{}
		return 3
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var first *agent.Session
	working := make(chan struct{})
	job.Emit = func(e agent.Event) {
		if e.Type == agent.TextDelta {
			close(working)
		}
	}
	first, err := agent.StartSession(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	<-working
	if err := first.Interrupt(ctx); err != nil {
		t.Fatal(err)
	}
	<-interrupted
	cancel(atoll.ErrLeft)
	_ = first.Close()
	job.Emit = nil
	again, err := agent.ResumeSession(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	r, err := again.Wait(t.Context())
	if err != nil || r.Outcome != agent.Aborted {
		t.Errorf("the result is %+v, %v", r, err)
	}
	if n := bytes.Count(inputs.Bytes(), []byte("interrupt")); n != 1 {
		t.Errorf("the agent was sent %q", inputs.String())
	}
	_ = again.Close()
}

// TestResumeWithoutProcess continues sessions whose process or journal does not exist any more: each ends as crashed, with the cause.
func TestResumeWithoutProcess(t *testing.T) {
	sb, job := newResumable(t)
	sb.program = func(p *keptProcess) int { // answers nothing, so the turn is left in its middle
		b := make([]byte, 100)
		for {
			if _, err := p.Read(b); err != nil {
				return 0
			}
		}
	}
	begun, left := context.WithCancelCause(t.Context())
	first, err := agent.StartSession(begun, job)
	if err != nil {
		t.Fatal(err)
	}
	left(atoll.ErrLeft)
	if _, err := first.Wait(t.Context()); err != nil || !first.WasLeft() {
		t.Fatalf("the session was not left: %v", err)
	}
	_ = first.Close()
	sb.mu.Lock()
	clear(sb.kept)
	sb.mu.Unlock()
	again, err := agent.ResumeSession(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	r, err := again.Wait(t.Context())
	if err != nil || r.Outcome != agent.Crashed || r.Code != "sandbox" || !strings.Contains(r.Message, "process is missing") {
		t.Errorf("without its process: %+v, %v", r, err)
	}
	_ = again.Close()
	if err := os.RemoveAll(job.Journal); err != nil {
		t.Fatal(err)
	}
	_, err = agent.ResumeSession(t.Context(), job)
	end := agent.Ending{Err: err}
	if r := end.Result(); r.Outcome != agent.Crashed || r.Code != "sandbox" || !strings.Contains(r.Message, "journal of the agent's session is missing") {
		t.Errorf("without its journal: %+v", r)
	}
}

// TestResumeWithoutJournal: a session whose output is longer than a journal can't be continued, and says so.
func TestResumeWithoutJournal(t *testing.T) {
	_, job := newResumable(t)
	if _, err := agent.ResumeSession(t.Context(), job); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("without a journal: %v", err)
	}
	if err := os.MkdirAll(job.Journal, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(job.Journal, "start.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.ResumeSession(t.Context(), job); err == nil || errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("with a broken journal: %v", err)
	}
}

// newConversing returns a job whose program answers many prompts, each with two texts and a result, and asks for a permission in between.
func newConversing(t *testing.T) agent.Job {
	t.Helper()
	s, job := newResumable(t)
	s.program = func(p *keptProcess) int {
		in := bufio.NewReader(p)
		for {
			prompt, err := in.ReadString('\n')
			if err != nil {
				return 0
			}
			fmt.Fprintf(p, "{\"text\":%q}\n{\"ask\":\"may I\"}\n", prompt)
			answer, err := in.ReadString('\n')
			if err != nil {
				return 1
			}
			fmt.Fprintf(p, "{\"text\":%q}\n{\"result\":%q}\n", answer, "did "+prompt)
		}
	}
	job.Once, job.Agent = false, fakeAgent{features: allFeatures()}
	return job
}

// TestResumeSeveralPrompts leaves a session of three prompts after each event of the last two, continues it, and expects the events of
// that prompt alone, as without that.
func TestResumeSeveralPrompts(t *testing.T) {
	run := func(t *testing.T, prompt, leaveAfter int) (again []string, result agent.Result) {
		t.Helper()
		job := newConversing(t)
		var told []string
		left := make(chan struct{})
		var s *agent.Session
		emit := func(e agent.Event) {
			if told = append(told, formatEvent(e)); len(told) == leaveAfter {
				s.Leave()
				close(left)
			}
		}
		job.Decide = func(context.Context, agent.Permission) (agent.Decision, error) {
			return agent.Decision{Allow: true}, nil
		}
		job.Turn.ID = "turn0"
		dir := filepath.Dir(job.Journal)
		s, err := agent.StartSession(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= prompt; n++ {
			if _, err := s.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(job.Journal); err != nil { // the turn has ended
				t.Fatal(err)
			}
			job.Journal = filepath.Join(dir, fmt.Sprint("journal", n))
			next := agent.NextPrompt{Prompt: agent.Text(fmt.Sprint("prompt ", n)), Turn: fmt.Sprint("turn", n), Journal: job.Journal}
			if n == prompt {
				next.Emit = emit
			}
			if err := s.StartPrompt(t.Context(), next); err != nil {
				t.Fatal(err)
			}
		}
		if leaveAfter > 0 {
			<-left
		}
		result, err = s.Wait(t.Context())
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		if leaveAfter == 0 {
			return told, result
		}
		job.Turn = agent.Turn{}
		job.Emit = func(e agent.Event) {
			if again = append(again, formatEvent(e)); e.Turn != fmt.Sprint("turn", prompt) {
				t.Errorf("an event of %s: %+v", e.Turn, e)
			}
		}
		s, err = agent.ResumeSession(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		result, err = s.Wait(t.Context())
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		return again, result
	}
	for prompt := 1; prompt <= 2; prompt++ {
		want, end := run(t, prompt, 0)
		if len(want) != 5 || end.Outcome != agent.OK || !strings.Contains(end.Text, fmt.Sprint("prompt ", prompt)) {
			t.Fatalf("prompt %d: %q, %+v", prompt, want, end)
		}
		for n := 1; n < len(want); n++ {
			again, res := run(t, prompt, n)
			if !slices.Equal(again, want) || res.Text != end.Text || res.Outcome != end.Outcome {
				t.Errorf("prompt %d, left after %d events, continued:\n%q %+v\nwant\n%q", prompt, n, again, res, want)
			}
		}
	}
}

// TestResumePromptOfLostProcess continues a session of several prompts whose process is gone: the last prompt crashes, and no earlier
// result is taken for its own.
func TestResumePromptOfLostProcess(t *testing.T) {
	job := newConversing(t)
	job.Decide = func(context.Context, agent.Permission) (agent.Decision, error) {
		return agent.Decision{Allow: true}, nil
	}
	s, err := agent.StartSession(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.StartPrompt(t.Context(), agent.NextPrompt{Prompt: agent.Text("again"), Turn: "second", Emit: func(e agent.Event) {
		if e.Type == agent.TextDelta {
			s.Leave()
		}
	}}); err != nil {
		t.Fatal(err)
	}
	<-s.Ended()
	_ = s.Close()
	box := job.Sandbox.(*resumableSandbox)
	box.mu.Lock()
	clear(box.kept)
	box.mu.Unlock()
	var last agent.Event
	job.Emit = func(e agent.Event) { last = e }
	s, err = agent.ResumeSession(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Wait(t.Context())
	if err != nil || r.Outcome != agent.Crashed || last.Type != agent.Finished || last.Turn != "second" {
		t.Errorf("the result is %+v, %v; the last event %+v", r, err, last)
	}
	_ = s.Close()
}
