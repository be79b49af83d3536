//go:build linux

package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/command"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
)

// shell makes a turn of shell text in a sandbox, with no program besides.
func shell(t *testing.T, w *world, text string) (agent.Job, *record) {
	t.Helper()
	return w.job(t, w.sandbox(t), agent.Turn{Prompt: agent.Text("go on"), Command: []string{"sh", "-c", text}})
}

func newShell(t *testing.T, p place) *world {
	t.Helper()
	return newWorld(t, p, command.Agent{}, dialect.Anthropic, scratch(t), ".")
}

// heart is a tree of processes of every kind, whose beat is a file that grows. All hold a
// leaktest.Lifeline.
const heart = `
exec 3>/workspace/lifeline
beat() { while :; do echo $1 >> /workspace/beat; sleep 0.02; done; }
( (beat grandchild) & ) &
(trap '' TERM INT HUP; beat deaf) &
setsid sh -c '(while :; do echo session >> /workspace/beat; sleep 0.02; done) & wait' >/dev/null 2>&1 </dev/null &
until grep -q grandchild /workspace/beat && grep -q deaf /workspace/beat && grep -q session /workspace/beat; do sleep 0.02; done 2>/dev/null
echo started
`

// checkHeartStopped fails if processes of the heart still run, or never ran.
func checkHeartStopped(t *testing.T, w *world, lifeline *leaktest.Lifeline) {
	t.Helper()
	if beats := w.file(t, workspace+"/beat"); beats == "" {
		t.Error("the heart never beat")
	}
	lifeline.CheckExited(t)
}

func started(e agent.Event) bool { return strings.Contains(e.Text, "started") }

// However a turn ends, nothing of it is left.
func TestRunLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		for name, c := range map[string]struct {
			text string
			end  func(t *testing.T, j *agent.Job, cancel context.CancelFunc) // when it has started
			want agent.Outcome
		}{
			"ItEnds":    {heart, nil, agent.OK},
			"Cancelled": {heart + "beat main", func(_ *testing.T, _ *agent.Job, cancel context.CancelFunc) { cancel() }, agent.Aborted},
			"KilledFromOutside": {heart + "echo $$ > /workspace/pid; beat main", func(t *testing.T, j *agent.Job, _ context.CancelFunc) {
				exit, err := j.Sandbox.Exec(t.Context(), atoll.Cmd{Shell: "until test -s /workspace/pid; do sleep 0.02; done; kill -KILL $(cat /workspace/pid)"})
				if err != nil || exit.Code != 0 {
					t.Errorf("kill: %+v %v", exit, err)
				}
			}, agent.Failed},
			"OutputClosed": {heart + "exec >&- 2>&-; beat main", func(_ *testing.T, _ *agent.Job, cancel context.CancelFunc) { cancel() }, agent.Aborted},
			"Silent":       {heart + "beat main", func(_ *testing.T, _ *agent.Job, _ context.CancelFunc) {}, agent.Timeout},
		} {
			t.Run(name, func(t *testing.T) {
				w := newShell(t, p)
				lifeline := leaktest.NewLifeline(t, w.dirs[workspace])
				j, r := shell(t, w, c.text)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.want == agent.Timeout {
					j.Idle = 300 * time.Millisecond
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if c.end != nil {
						r.wait(started)
						c.end(t, &j, cancel)
					}
				}()
				res, err := agent.Run(ctx, j)
				<-ended
				if err != nil || res.Outcome != c.want {
					t.Errorf("%+v %v, want %s", res, err, c.want)
				}
				r.laws()
				checkHeartStopped(t, w, lifeline)
			})
		}
	})
}

// A sandbox that goes away in the middle ends the turn.
func TestRunOutlivesItsSandbox(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		w := newShell(t, p)
		lifeline := leaktest.NewLifeline(t, w.dirs[workspace])
		j, r := shell(t, w, heart+"beat main")
		ended := make(chan error, 1)
		go func() {
			r.wait(started)
			ended <- j.Sandbox.Destroy(context.WithoutCancel(t.Context()))
		}()
		res, err := agent.Run(t.Context(), j)
		if err != nil || res.Outcome != agent.Crashed && res.Outcome != agent.Failed {
			t.Errorf("%+v %v", res, err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.laws()
		checkHeartStopped(t, w, lifeline)
		if _, err := agent.Run(t.Context(), j); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a turn in a sandbox that is gone: %v", err)
		}
	})
}

// An agent that floods is slowed down by who watches, not kept in memory; and
// one that reads nothing blocks nobody.
func TestRunIsBounded(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		w := newShell(t, p)
		j, _ := shell(t, w, `i=0; while [ $i -lt 64 ]; do head -c 16777216 /dev/zero | tr '\0' x; echo; i=$((i+1)); done`)
		j.Turn.Prompt = agent.Text(strings.Repeat("unread ", 2<<20))
		j.Log = nil
		var lines int
		var most uint64
		j.Emit = func(e agent.Event) {
			if e.Type != agent.TextDelta {
				return
			}
			if n := len(strings.TrimPrefix(e.Text, "\n")); n != 16<<20 {
				t.Errorf("line %d has %d bytes", lines, n)
			}
			if lines++; lines%8 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			}
		}
		res, err := agent.Run(t.Context(), j)
		if err != nil || res.Outcome != agent.OK || lines != 64 {
			t.Errorf("%d lines, %s %v", lines, res.Outcome, err)
		}
		if most > 400<<20 {
			t.Errorf("%d MB were in use for lines of 16", most>>20)
		}
	})
}

// The model is reached with no network, at an address that is gone afterwards,
// by this turn only.
func TestRunReachesTheModel(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		w := newShell(t, p)
		var served atomic.Int64
		sb := w.sandbox(t)
		turn := agent.Turn{Prompt: agent.Text("go on"), Command: []string{"bash", "-c", `
			base=${ANTHROPIC_BASE_URL#http://}; echo "$base" > /workspace/address
			exec 3<>/dev/tcp/${base%:*}/${base#*:}
			printf 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3
			cat <&3 | tail -n 1`}}
		j, r := w.job(t, sb, turn)
		j.Model = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			served.Add(1)
			_, _ = io.WriteString(w, "from the host\n")
		})
		res, err := agent.Run(t.Context(), j)
		if err != nil || res.Text != "from the host" || served.Load() != 1 {
			t.Fatalf("%+v %v; %d requests", res, err, served.Load())
		}
		r.laws()
		address := strings.TrimSpace(w.file(t, workspace+"/address"))
		host, port, _ := strings.Cut(address, ":")
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%s", host, port)}})
		if err != nil || exit.Code == 0 {
			t.Errorf("the address %s leads on after the turn: %+v %v", address, exit, err)
		}
	})
}

// Links that a workspace holds lead no file of a prompt away.
func TestRunPlacesFilesWhereTheyBelong(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		w := newShell(t, p)
		for _, target := range []string{stateDir + "/command", "/etc", "../.."} {
			link := filepath.Join(w.dirs[workspace], ".attachments")
			if err := errors.Join(os.RemoveAll(link), os.Symlink(target, link)); err != nil {
				t.Fatal(err)
			}
			j, r := shell(t, w, `cat; cat /workspace/.attachments/*`)
			j.Turn.Prompt = append(j.Turn.Prompt, agent.Content{Name: "../passwd", Data: []byte("attached")})
			res, err := agent.Run(t.Context(), j)
			if err != nil || !strings.HasSuffix(res.Text, "[Attached file: /workspace/.attachments/passwd (8 bytes)]attached") {
				t.Errorf("%s: %+v %v", target, res, err)
			}
			r.laws()
			if info, err := os.Lstat(link); err != nil || !info.IsDir() {
				t.Errorf("%s: %v %v", target, info, err)
			}
		}
	})
}

// A double of an agent says in a real sandbox what its transcript has.
func TestRunOfADouble(t *testing.T) {
	dirs, err := filepath.Glob("../../agent/cursor/testdata/*/stdout.jsonl")
	if err != nil || len(dirs) == 0 {
		t.Skip("there are no transcripts")
	}
	each(t, func(t *testing.T, p place) {
		w := newShell(t, p)
		w.write(t, workspace+"/double", string(agenttest.Script(t, filepath.Dir(dirs[0]))))
		j, r := shell(t, w, "sh /workspace/double </dev/null")
		if _, err := agent.Run(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		r.laws()
		if n := len(r.typed(agent.TextDelta)); n < 2 {
			t.Errorf("%d lines", n)
		}
	})
}
