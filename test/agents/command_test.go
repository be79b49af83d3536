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

// newShellJob returns a turn that runs shell text in a new sandbox.
func newShellJob(t *testing.T, w *fixture, text string) (agent.Job, *eventRecorder) {
	t.Helper()
	return w.newJob(t, w.createSandbox(t), agent.Turn{Prompt: agent.Text("go on"), Command: []string{"sh", "-c", text}})
}

func newShellFixture(t *testing.T, p testDriver) *fixture {
	t.Helper()
	return newFixture(t, p, command.Agent{}, dialect.Anthropic, makeTempDir(t), ".")
}

// heartbeatScript is a tree of processes of every kind, whose beat is a file that grows. All hold a
// leaktest.Lifeline.
const heartbeatScript = `
exec 3>/workspace/lifeline
beat() { while :; do echo $1 >> /workspace/beat; sleep 0.02; done; }
( (beat grandchild) & ) &
(trap '' TERM INT HUP; beat deaf) &
setsid sh -c '(while :; do echo session >> /workspace/beat; sleep 0.02; done) & wait' >/dev/null 2>&1 </dev/null &
until grep -q grandchild /workspace/beat && grep -q deaf /workspace/beat && grep -q session /workspace/beat; do sleep 0.02; done 2>/dev/null
echo started
`

// checkHeartStopped fails if processes of heartbeatScript still run, or never ran.
func checkHeartStopped(t *testing.T, w *fixture, lifeline *leaktest.Lifeline) {
	t.Helper()
	if beats := w.readFile(t, workspace+"/beat"); beats == "" {
		t.Error("the heart never beat")
	}
	lifeline.CheckExited(t)
}

func isStarted(e agent.Event) bool { return strings.Contains(e.Text, "started") }

// TestRunLeavesNothing checks that no process of a turn is left, however the turn ends.
func TestRunLeavesNothing(t *testing.T) {
	forEachDriver(t, func(t *testing.T, p testDriver) {
		for name, c := range map[string]struct {
			text string
			end  func(t *testing.T, j *agent.Job, cancel context.CancelFunc) // when it has started
			want agent.Outcome
		}{
			"ItEnds":    {heartbeatScript, nil, agent.OK},
			"Cancelled": {heartbeatScript + "beat main", func(_ *testing.T, _ *agent.Job, cancel context.CancelFunc) { cancel() }, agent.Aborted},
			"KilledFromOutside": {heartbeatScript + "echo $$ > /workspace/pid; beat main", func(t *testing.T, j *agent.Job, _ context.CancelFunc) {
				exit, err := j.Sandbox.Exec(t.Context(), atoll.Cmd{Shell: "until test -s /workspace/pid; do sleep 0.02; done; kill -KILL $(cat /workspace/pid)"})
				if err != nil || exit.Code != 0 {
					t.Errorf("kill: %+v %v", exit, err)
				}
			}, agent.Failed},
			"OutputClosed": {heartbeatScript + "exec >&- 2>&-; beat main", func(_ *testing.T, _ *agent.Job, cancel context.CancelFunc) { cancel() }, agent.Aborted},
			"Silent":       {heartbeatScript + "beat main", func(_ *testing.T, _ *agent.Job, _ context.CancelFunc) {}, agent.Timeout},
		} {
			t.Run(name, func(t *testing.T) {
				w := newShellFixture(t, p)
				lifeline := leaktest.NewLifeline(t, w.dirs[workspace])
				j, r := newShellJob(t, w, c.text)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.want == agent.Timeout {
					j.Idle = 300 * time.Millisecond
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if c.end != nil {
						r.waitForEvent(isStarted)
						c.end(t, &j, cancel)
					}
				}()
				res, err := agent.Run(ctx, j)
				<-ended
				if err != nil || res.Outcome != c.want {
					t.Errorf("%+v %v, want %s", res, err, c.want)
				}
				r.checkLaws()
				checkHeartStopped(t, w, lifeline)
			})
		}
	})
}

// TestSandboxRemovedDuringTurn checks that a turn ends when its sandbox is removed.
func TestSandboxRemovedDuringTurn(t *testing.T) {
	forEachDriver(t, func(t *testing.T, p testDriver) {
		w := newShellFixture(t, p)
		lifeline := leaktest.NewLifeline(t, w.dirs[workspace])
		j, r := newShellJob(t, w, heartbeatScript+"beat main")
		ended := make(chan error, 1)
		go func() {
			r.waitForEvent(isStarted)
			ended <- j.Sandbox.Destroy(context.WithoutCancel(t.Context()))
		}()
		res, err := agent.Run(t.Context(), j)
		if err != nil || res.Outcome != agent.Crashed && res.Outcome != agent.Failed {
			t.Errorf("%+v %v", res, err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.checkLaws()
		checkHeartStopped(t, w, lifeline)
		if _, err := agent.Run(t.Context(), j); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a turn in a removed sandbox: %v", err)
		}
	})
}

// TestRunBoundsOutput checks that much output of an agent waits for a slow consumer
// instead of filling memory, and that an agent that reads no input blocks nothing.
func TestRunBoundsOutput(t *testing.T) {
	forEachDriver(t, func(t *testing.T, p testDriver) {
		w := newShellFixture(t, p)
		j, _ := newShellJob(t, w, `i=0; while [ $i -lt 32 ]; do head -c 16777216 /dev/zero | tr '\0' x; echo; i=$((i+1)); done`)
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
		if err != nil || res.Outcome != agent.OK || lines != 32 {
			t.Errorf("%d lines, %s %v", lines, res.Outcome, err)
		}
		if most > 400<<20 {
			t.Errorf("%d MB were in use for lines of 16", most>>20)
		}
	})
}

// TestRunReachesTheModel checks that only this turn can reach the model, without a
// network, and that its address does not work afterwards.
func TestRunReachesTheModel(t *testing.T) {
	forEachDriver(t, func(t *testing.T, p testDriver) {
		w := newShellFixture(t, p)
		var served atomic.Int64
		sb := w.createSandbox(t)
		turn := agent.Turn{Prompt: agent.Text("go on"), Command: []string{"bash", "-c", `
			base=${ANTHROPIC_BASE_URL#http://}; echo "$base" > /workspace/address
			exec 3<>/dev/tcp/${base%:*}/${base#*:}
			printf 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3
			cat <&3 | tail -n 1`}}
		j, r := w.newJob(t, sb, turn)
		j.Model = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			served.Add(1)
			_, _ = io.WriteString(w, "from the host\n")
		})
		res, err := agent.Run(t.Context(), j)
		if err != nil || res.Text != "from the host" || served.Load() != 1 {
			t.Fatalf("%+v %v; %d requests", res, err, served.Load())
		}
		r.checkLaws()
		address := strings.TrimSpace(w.readFile(t, workspace+"/address"))
		host, port, _ := strings.Cut(address, ":")
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%s", host, port)}})
		if err != nil || exit.Code == 0 {
			t.Errorf("the address %s still works after the turn: %+v %v", address, exit, err)
		}
	})
}

// TestPromptFilesFollowNoLinks checks that links in a workspace do not redirect files
// of a prompt.
func TestPromptFilesFollowNoLinks(t *testing.T) {
	forEachDriver(t, func(t *testing.T, p testDriver) {
		w := newShellFixture(t, p)
		for _, target := range []string{stateDir + "/command", "/etc", "../.."} {
			link := filepath.Join(w.dirs[workspace], ".attachments")
			if err := errors.Join(os.RemoveAll(link), os.Symlink(target, link)); err != nil {
				t.Fatal(err)
			}
			j, r := newShellJob(t, w, `cat; cat /workspace/.attachments/*`)
			j.Turn.Prompt = append(j.Turn.Prompt, agent.Content{Name: "../passwd", Data: []byte("attached")})
			res, err := agent.Run(t.Context(), j)
			if err != nil || !strings.HasSuffix(res.Text, "[Attached file: /workspace/.attachments/passwd (8 bytes)]attached") {
				t.Errorf("%s: %+v %v", target, res, err)
			}
			r.checkLaws()
			if info, err := os.Lstat(link); err != nil || !info.IsDir() {
				t.Errorf("%s: %v %v", target, info, err)
			}
		}
	})
}

// TestRunScriptedAgent runs a script that prints a transcript as an agent in a real
// sandbox.
func TestRunScriptedAgent(t *testing.T) {
	dirs, err := filepath.Glob("../../agent/cursor/testdata/*/stdout.jsonl")
	if err != nil || len(dirs) == 0 {
		t.Skip("there are no transcripts")
	}
	forEachDriver(t, func(t *testing.T, p testDriver) {
		w := newShellFixture(t, p)
		w.writeFile(t, workspace+"/double", string(agenttest.Script(t, filepath.Dir(dirs[0]))))
		j, r := newShellJob(t, w, "sh /workspace/double </dev/null")
		if _, err := agent.Run(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		r.checkLaws()
		if n := len(r.eventsOfType(agent.TextDelta)); n < 2 {
			t.Errorf("%d lines", n)
		}
	})
}
